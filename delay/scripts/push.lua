-- push stores jobs: delayed, or ready where they are due now.
-- ARGV[3]: longest delay, ms. Then for each job: id, topic, when ('+ms' from now or absolute ms), the record's tail,
-- the body kept beside the record (or '').
-- Returns µs now, then for each job one of: due ms (negative where it is ready at once) | {state, due ms, topic} of the
-- stored job with this id, which stays | "far" where the moment is beyond the longest delay.
local first = 4
local n = (#ARGV - first + 1) / 5
local number = numbers(n)
local us = now()
local ms, up = math.floor(us / 1000), math.ceil(us / 1000)

local ids = {}
for i = 1, n do ids[i] = ARGV[first + (i - 1) * 5] end
local known = redis.call('HMGET', pool, unpack(ids))

local function stored(id, record)
  local topic, due = record:match('^%S+ (%S+) %d+ %d+ (%d+)')
  local state, score = state_of(id)
  if state == 'delayed' then due = score end
  return { state, tonumber(due or 0), topic or '' }
end

local function due_of(when)
  if when == '+0' then return ms, ms end
  if when:sub(1, 1) == '+' then return up + tonumber(when), up end
  local at = tonumber(when)
  if at <= ms then return ms, ms end
  return at, up < at and up or at
end

local replies, fresh, records, outside, delayed, groups = { us }, {}, {}, {}, {}, {}
for i = 1, n do
  local at = first + (i - 1) * 5
  local id, topic, when, tail, body = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  local due, pushed = due_of(when)
  if known[i] then
    replies[i + 1] = stored(id, known[i])
  elseif fresh[id] then
    replies[i + 1] = fresh[id]
  elseif due - ms > tonumber(ARGV[3]) + 1 then
    replies[i + 1] = 'far'
  else
    local version = '1'
    if body ~= '' then
      version = '1o'
      outside[#outside + 1] = id
      outside[#outside + 1] = body
    end
    records[#records + 1] = id
    records[#records + 1] = version .. ' ' .. topic .. ' ' .. int(number + i) .. ' ' .. int(pushed) .. ' ' .. int(due) .. ' ' .. tail
    if due > ms then
      delayed[#delayed + 1] = int(due)
      delayed[#delayed + 1] = id
      count('d', topic, 1)
      replies[i + 1] = due
    else
      groups[topic] = groups[topic] or {}
      table.insert(groups[topic], id)
      count('r', topic, 1)
      replies[i + 1] = -due
    end
    fresh[id] = { due > ms and 'delayed' or 'ready', due, topic }
  end
end

if #records > 0 then redis.call('HSET', pool, unpack(records)) end
if #outside > 0 then redis.call('HSET', bodies, unpack(outside)) end
if #delayed > 0 then redis.call('ZADD', bucket, unpack(delayed)) end
for topic, list in pairs(groups) do enlist('RPUSH', topic, list, us) end
commit_counts()
return replies
