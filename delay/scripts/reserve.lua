-- reserve leases ready jobs of some topics for a delivery.
-- KEYS[10…]: the topics' lists. ARGV[3]: owner. ARGV[4]: ms of the lease. ARGV[5]: bytes of records at most.
-- ARGV[6…]: for each list its topic and how many jobs are wanted.
-- Returns: µs now, {id, value of tries, record, body, …} of the jobs that had expired and are dead now, then for each
-- topic {entries left in the list, id, value of tries, record, body where it is kept beside the record, …}.
-- Records of a format that is not known here go to the end of the list as they are.
call('ZREM', running, '')
local us, _
us, _, serial = now()
time = us
owner, deadline, room = ARGV[3], int(math.ceil(us / 1000) + tonumber(ARGV[4])), tonumber(ARGV[5])
local steps, died = 2000, {}

-- expire makes a job dead that is too late for its first delivery.
local function expire(id, t, record)
  t.reason = 'expired'
  land(id, t, 'r', nil, us)
  for _, part in ipairs({ id, format_try(t), record, body_of(id, record) }) do died[#died + 1] = part end
end

-- take leases what is ready of the first ids of a list, up to wanted jobs. stale says that ids of the list may not be
-- ready any more; of those in flight or dead tries tells it.
local function take(topic, ids, out, wanted, stale)
  local records, values = call('HMGET', pool, unpack(ids)), call('HMGET', tries, unpack(ids))
  local delayed = stale and call('ZMSCORE', bucket, unpack(ids)) or {}
  local alien, taken, used = {}, {}, 0
  for i, id in ipairs(ids) do
    if wanted == 0 or room <= 0 then break end
    used = i
    local record = records[i]
    local flags, filed, push
    if record then flags, filed, push = record:match('^1(o?e?) (%S+) (%d+) ') end
    local t = values[i] and parse_try(values[i]) -- nil of a job that was never delivered
    if t and t.push ~= push then t = nil end
    local over = t and (t.phase:find('[lcb]') or t.reason) -- in flight, or dead
    if record and not push then
      alien[#alien + 1] = id
    elseif push and filed == topic and not (taken[id] or delayed[i] or over) then
      taken[id] = true
      if flags ~= '' and flags:find('e') and (not t or t.n == t.base) and expired(record, us / 1000) then
        expire(id, t or first_try(push, topic), record)
      else
        wanted = wanted - 1
        lease(id, push, topic, t, record, flags ~= '' and flags:find('o'), out)
      end
    end
  end
  if noted > 0 then
    count('r', topic, -noted / 2)
    count('i', topic, noted / 2)
    commit_leases()
  end
  return used, wanted, alien
end

local replies = { us, died }
for i = 10, #KEYS do
  local list, topic = KEYS[i], ARGV[6 + (i - 10) * 2]
  local wanted, out = tonumber(ARGV[7 + (i - 10) * 2]), { 0 }
  local left = call('LLEN', list)
  local stale = left ~= tonumber(call('HGET', topics, 'r:' .. topic) or 0)
  while left > 0 and wanted > 0 and room > 0 and steps > 0 do
    local ids = call('LRANGE', list, 0, math.min(wanted, 128) - 1)
    local used, alien
    used, wanted, alien = take(topic, ids, out, wanted, stale)
    if used == 0 then break end
    if #alien > 0 then call('RPUSH', list, unpack(alien)) end
    behead(topic, used)
    left, steps = left - used, steps - used
  end
  if left == 0 and call('EXISTS', list) == 0 then call('ZREM', active, topic) end
  out[1] = left
  replies[#replies + 1] = out
end
commit_counts()
return replies
