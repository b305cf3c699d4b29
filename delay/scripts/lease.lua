-- lease: beside the prelude for what leases jobs for a delivery.

-- The script sets these: time and serial are the bucket's time, µs, and its counter of pushes and deliveries, from now(); room is how many bytes of
-- records its answer may still have; owner and deadline, ms, are those of its leases.
local time, serial, room, owner, deadline = 0, 0, 0, '', ''
local leases, notes, noted = {}, {}, 0
local firsts = {} -- topic → how the value of tries of a first delivery ends

-- first_end gives that of a topic.
local function first_end(topic)
  firsts[topic] = firsts[topic] or ' 0 0 ' .. owner .. ' l ' .. topic
  return firsts[topic]
end

-- lease notes to write that a job is leased, and puts onto out what its delivery needs: id, value of tries, record, and
-- the body where that is kept beside it. Behind the value of a job that was delivered before within its budget stand a blank
-- and the phase in which it was found. t is nil for one that was never delivered.
local function lease(id, push, topic, t, record, beside, out)
  serial = serial + 1
  local ends = t and ' ' .. t.n .. ' ' .. t.base .. ' ' .. owner .. ' l ' .. topic or first_end(topic)
  local value = push .. ' ' .. int(serial) .. ends
  leases[noted + 1], leases[noted + 2], notes[noted + 1], notes[noted + 2] = deadline, id, id, value
  noted = noted + 2
  local at = #out
  out[at + 1], out[at + 2], out[at + 3] = id, t and t.n > t.base and value .. ' ' .. t.phase or value, record
  room = room - #record
  if beside then
    out[at + 4] = call('HGET', bodies, id) or ''
    room = room - #out[at + 4]
  end
end

-- commit_leases writes what lease noted.
local function commit_leases()
  if noted == 0 then return end
  call('HSET', clock, 'now', int(time), 'seq', int(serial))
  call('ZADD', running, unpack(leases))
  if noted < 32 then
    call('HSET', tries, unpack(notes))
  else
    -- Redis keeps a hash of up to 512 short values as a list that it goes through for each field; one of over 64 bytes
    -- makes it a table, for as long as it has entries.
    call('HSET', tries, '', string.rep('-', 65), unpack(notes))
    call('HDEL', tries, '')
  end
  leases, notes, noted = {}, {}, 0
end
