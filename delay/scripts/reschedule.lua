-- reschedule gives jobs that wait another due time.
-- ARGV[3]: longest delay, ms. Then for each job: id, when ('+ms' from now or absolute ms).
-- Returns for each job {outcome, state, ms, topic}; outcomes: ok, none, state, leased (its delivery is not certain yet),
-- far (beyond the longest delay).
local us = now()
local ms, up = math.floor(us / 1000), math.ceil(us / 1000)
local replies = {}

local function due_of(when)
  if when == '+0' then return ms end
  if when:sub(1, 1) == '+' then return up + tonumber(when) end
  return math.max(tonumber(when), ms)
end

-- refile rewrites the first due time of a job that was never delivered. What another version wrote stays as it is.
local function refile(id, record, due)
  local head, rest = record:match('^(1o?e? %S+ %d+ %d+ )%d+( .*)$')
  if head then call('HSET', pool, id, head .. int(due) .. rest) end
end

local function move(id, record, topic, state, due)
  local t = parse_try(call('HGET', tries, id))
  if not t or t.n == t.base then refile(id, record, due) end
  if due > ms then
    call('ZADD', bucket, int(due), id)
    if state == 'ready' then
      count('r', topic, -1)
      count('d', topic, 1)
    end
    return 'delayed'
  end
  if state == 'delayed' then
    enlist('RPUSH', topic, { id }, us)
    call('ZREM', bucket, id)
    count('d', topic, -1)
    count('r', topic, 1)
  end
  return 'ready'
end

for i = 4, #ARGV, 2 do
  local id = ARGV[i]
  local record = call('HGET', pool, id)
  local due = due_of(ARGV[i + 1])
  if not record then
    replies[#replies + 1] = { 'none', 'unknown', 0, '' }
  else
    local topic = record:match('^%S+ (%S+)')
    local state, score = state_of(id)
    local t = state == 'inflight' and parse_try(call('HGET', tries, id))
    if t and t.phase == 'l' then
      replies[#replies + 1] = { 'leased', state, 0, topic }
    elseif state == 'inflight' or state == 'dead' then
      replies[#replies + 1] = { 'state', state, tonumber(score), topic }
    elseif due - ms > tonumber(ARGV[3]) + 1 then
      replies[#replies + 1] = { 'far', state, tonumber(score), topic }
    else
      replies[#replies + 1] = { 'ok', move(id, record, topic, state, due), due, topic }
    end
  end
end
commit_counts()
return replies
