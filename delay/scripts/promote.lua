-- promote makes ready what is due, and what was leased or delivered and not settled in time.
-- ARGV[3]: at most so many of each, and a quarter more of what became due within the last 5 s. ARGV[4…]: topics that are paused: their jobs do not expire.
-- Returns: µs now | µs of the next entry that is not due, or -1 | 1 where more is due already | {topic, …} with new ready jobs |
-- {value of tries, …} of the flights that ended | {id, value of tries, record, body, …} of the jobs that are dead now |
-- number of ids without a record, which were dropped | µs that the bucket is ahead of Redis's clock.
call('ZREM', running, '')
local us, ahead = now()
local limit = tonumber(ARGV[3])
local ready, ended, died, orphans = {}, {}, {}, 0

local function records_of(ids)
  if #ids == 0 then return {} end
  return call('HMGET', pool, unpack(ids))
end

local due = call('ZRANGEBYSCORE', bucket, '-inf', int(math.floor(us / 1000)), 'LIMIT', 0, limit)
if #due == limit then
  -- A backlog: what became due just now does not wait behind all of it.
  local before = {}
  for _, id in ipairs(due) do before[id] = true end
  local fresh = call('ZRANGEBYSCORE', bucket, int(math.floor(us / 1000) - 5000), int(math.floor(us / 1000)), 'LIMIT', 0, limit / 4)
  for _, id in ipairs(fresh) do
    if not before[id] then due[#due + 1] = id end
  end
end
local groups, paused = {}, {}
for i = 4, #ARGV do paused[ARGV[i]] = true end

-- bury notes a job that is dead now.
local function bury(id, t, record)
  for _, part in ipairs({ id, format_try(t), record, body_of(id, record) }) do died[#died + 1] = part end
end

for i, record in ipairs(records_of(due)) do
  local topic, push
  if record then topic, push = record:match('^%S+ (%S+)'), record:match('^1o?e? %S+ (%d+)') end
  local t = topic and not paused[topic] and expired(record, us / 1000) and
    (parse_try(call('HGET', tries, due[i])) or first_try(push, topic))
  if t and t.n == t.base then
    t.reason = 'expired'
    land(due[i], t, 'd', nil, us)
    bury(due[i], t, record)
  elseif topic then
    groups[topic] = groups[topic] or {}
    table.insert(groups[topic], due[i])
  elseif record then
    call('ZADD', dead, int(us / 1000), due[i])
  else
    orphans = orphans + 1
  end
end
for topic, ids in pairs(groups) do
  enlist('RPUSH', topic, ids, us)
  count('d', topic, -#ids)
  count('r', topic, #ids)
  ready[#ready + 1] = topic
end
if #due > 0 then call('ZREM', bucket, unpack(due)) end

local late = call('ZRANGEBYSCORE', running, '-inf', int(math.floor(us / 1000)), 'LIMIT', 0, limit)
local records = records_of(late)
local values = #late > 0 and call('HMGET', tries, unpack(late)) or {}
for i, id in ipairs(late) do
  local t = parse_try(values[i])
  if not records[i] or not t then
    if records[i] then
      local topic = records[i]:match('^%S+ (%S+) ')
      if topic then enlist('RPUSH', topic, { id }, us) end
    else
      orphans = orphans + 1
    end
    call('ZREM', running, id)
  else
    ended[#ended + 1] = values[i]
    local pause = 0
    if t.phase == 'c' then
      t.phase = 't'
      pause = pause_after(records[i], t.n - t.base)
      if not pause then t.reason = 'max_attempts' end
    else
      t.phase = 'v'
    end
    land(id, t, 'i', pause, us)
    if pause == 0 then ready[#ready + 1] = t.topic end
    if not pause then bury(id, t, records[i]) end
  end
end

commit_counts()
-- Where more is due already, the next entry is the first that is not.
local more, next = (#due >= limit or #late == limit) and 1 or 0
if more == 1 then
  next = call('ZRANGEBYSCORE', bucket, '(' .. int(math.floor(us / 1000)), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  next = next and tonumber(next) * 1000 or -1
end
return { us, next or due_next(), more, ready, ended, died, orphans, ahead }
