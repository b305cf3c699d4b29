-- reserve leases ready jobs of some topics for a delivery.
-- KEYS[10…]: the topics' lists. ARGV[3]: owner. ARGV[4]: ms of the lease. ARGV[5]: bytes of records at most.
-- ARGV[6…]: for each list its topic and how many jobs are wanted.
-- Returns: µs now, {id, value of tries, record, body, …} of the jobs that had expired and are dead now, then for each
-- topic {entries left in the list, id, token, deliveries ever, deliveries before the present budget, record, body, …}.
-- Records of a format that is not known here go to the end of the list as they are.
redis.call('ZREM', running, '')
local us = now()
local owner, room = ARGV[3], tonumber(ARGV[5])
local deadline = int(math.ceil(us / 1000) + tonumber(ARGV[4]))
local steps, died = 2000, {}

-- expire makes a job dead that is too late for its first delivery.
local function expire(id, t, record)
  t.reason = 'expired'
  land(id, t, 'r', nil, us)
  for _, part in ipairs({ id, format_try(t), record, body_of(id, record) }) do died[#died + 1] = part end
end

-- lease adds a job to out and notes what to write.
local function lease(id, t, record, leases, notes, out)
  local body = body_of(id, record)
  room = room - #record - #body
  t.owner, t.phase, t.reason = owner, 'l', nil
  leases[#leases + 1], leases[#leases + 2] = deadline, id
  notes[#notes + 1], notes[#notes + 2] = id, format_try(t)
  local at = #out
  out[at + 1], out[at + 2], out[at + 3], out[at + 4], out[at + 5], out[at + 6] = id, t.token, t.n, t.base, record, body
end

-- take leases what is ready of the first ids of a list, up to wanted jobs.
local function take(topic, ids, out, wanted)
  local records, values = redis.call('HMGET', pool, unpack(ids)), redis.call('HMGET', tries, unpack(ids))
  local delayed, flying = redis.call('ZMSCORE', bucket, unpack(ids)), redis.call('ZMSCORE', running, unpack(ids))
  local died_before = redis.call('ZMSCORE', dead, unpack(ids))
  local leases, notes, alien, taken, used = {}, {}, {}, {}, 0
  local number = tonumber(redis.call('HGET', clock, 'seq') or 0)
  for i, id in ipairs(ids) do
    if wanted == 0 or room <= 0 then break end
    used = i
    local record = records[i]
    local filed, push
    if record then filed, push = record:match('^1o?e? (%S+) (%d+) ') end
    if record and not push then
      alien[#alien + 1] = id
    elseif push and filed == topic and not (taken[id] or delayed[i] or flying[i] or died_before[i]) then
      local t = parse_try(values[i])
      if not t or t.push ~= push then t = first_try(push, topic) end
      taken[id] = true
      if t.n == t.base and expired(record, us / 1000) then
        expire(id, t, record)
      else
        number, wanted = number + 1, wanted - 1
        t.token = int(number)
        lease(id, t, record, leases, notes, out)
      end
    end
  end
  if #leases > 0 then
    numbers(#leases / 2)
    redis.call('ZADD', running, unpack(leases))
    redis.call('HSET', tries, unpack(notes))
    count('r', topic, -#leases / 2)
    count('i', topic, #leases / 2)
  end
  return used, wanted, alien
end

local replies = { us, died }
for i = 10, #KEYS do
  local list, topic = KEYS[i], ARGV[6 + (i - 10) * 2]
  local wanted, out = tonumber(ARGV[7 + (i - 10) * 2]), { 0 }
  local left = redis.call('LLEN', list)
  while left > 0 and wanted > 0 and room > 0 and steps > 0 do
    local ids = redis.call('LRANGE', list, 0, math.min(wanted, 128) - 1)
    local used, alien
    used, wanted, alien = take(topic, ids, out, wanted)
    if used == 0 then break end
    if #alien > 0 then redis.call('RPUSH', list, unpack(alien)) end
    behead(topic, used)
    left, steps = left - used, steps - used
  end
  if left == 0 and redis.call('EXISTS', list) == 0 then redis.call('ZREM', active, topic) end
  out[1] = left
  replies[#replies + 1] = out
end
commit_counts()
return replies
