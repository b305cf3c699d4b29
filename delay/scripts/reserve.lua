-- reserve leases ready jobs of some topics for a delivery.
-- KEYS[10…]: the topics' lists. ARGV[3]: owner. ARGV[4]: ms of the lease. ARGV[5]: bytes of records at most.
-- ARGV[6…]: for each list its topic and how many jobs are wanted.
-- Returns: µs now, then for each topic {entries left in the list, id, token, deliveries ever, deliveries before the
-- present budget, record, body, …}. Records of a format that is not known here go to the end of the list as they are.
redis.call('ZREM', running, '')
local us = now()
local owner, lease, room = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local deadline = int(math.ceil(us / 1000) + lease)
local steps = 2000

-- take leases what is ready of the first ids of a list and adds it to out.
local function take(topic, ids, out, wanted)
  local records = redis.call('HMGET', pool, unpack(ids))
  local values = redis.call('HMGET', tries, unpack(ids))
  local places = { redis.call('ZMSCORE', bucket, unpack(ids)), redis.call('ZMSCORE', running, unpack(ids)),
    redis.call('ZMSCORE', dead, unpack(ids)) }
  local leases, notes, alien, taken, used = {}, {}, {}, {}, 0
  local number = redis.call('HGET', clock, 'seq') or 0
  for i, id in ipairs(ids) do
    local record = records[i]
    if wanted == 0 or room <= 0 then break end
    used = i
    local filed, push
    if record then filed, push = record:match('^1o? (%S+) (%d+) ') end
    if record and not push then
      alien[#alien + 1] = id
    elseif push and filed == topic and not taken[id] and not places[1][i] and not places[2][i] and not places[3][i] then
      local body = body_of(id, record)
      taken[id] = true
      number, wanted, room = number + 1, wanted - 1, room - #record - #body
      local n, base = 0, 0
      if values[i] then
        local t = parse_try(values[i])
        if t and t.push == push then n, base = t.n, t.base end
      end
      leases[#leases + 1] = deadline
      leases[#leases + 1] = id
      notes[#notes + 1] = id
      notes[#notes + 1] = push .. ' ' .. int(number) .. ' ' .. int(n) .. ' ' .. int(base) .. ' ' .. owner .. ' l ' .. topic
      local at = #out
      out[at + 1], out[at + 2], out[at + 3] = id, int(number), n
      out[at + 4], out[at + 5], out[at + 6] = base, record, body
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

local replies = { us }
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
    redis.call('LPOP', list, used)
    left, steps = left - used, steps - used
  end
  if redis.call('EXISTS', list) == 0 then redis.call('ZREM', active, topic) end
  out[1] = left
  replies[#replies + 1] = out
end
commit_counts()
return replies
