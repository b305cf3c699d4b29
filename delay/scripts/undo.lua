-- undo takes back deliveries that were certain and are not: the stream that listened has not taken the message. The jobs
-- are ready again, at the head of their list, and the attempt does not count.
-- ARGV[3…]: for each job id, token.
-- Returns for each job 1, or 0 where that delivery is over or settled.
call('ZREM', running, '')
local us = now()
local ids, replies = {}, {}
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local values = call('HMGET', tries, unpack(ids))
local notes, groups, back = {}, {}, {}
for i = #ids, 1, -1 do
  local id, t = ids[i], parse_try(values[i])
  replies[i] = 0
  if t and t.token == ARGV[i * 2 + 2] and (t.phase == 'c' or t.phase == 'l') then
    replies[i] = 1
    if t.phase == 'c' then t.n = t.n - 1 end
    t.phase = 'v'
    groups[t.topic] = groups[t.topic] or {}
    table.insert(groups[t.topic], id)
    notes[#notes + 1], notes[#notes + 2] = id, format_try(t)
    back[#back + 1] = id
  end
end
for topic, list in pairs(groups) do
  enlist('LPUSH', topic, list, us)
  -- As in return.lua: the job has been ready since it was due, not since now.
  local record = call('HGET', pool, list[#list])
  local due = record and record:match('^%S+ %S+ %d+ %d+ (%d+)')
  if due then call('ZADD', active, 'LT', due, topic) end
  count('r', topic, #list)
  count('i', topic, -#list)
end
if #back > 0 then
  call('ZREM', running, unpack(back))
  call('HSET', tries, unpack(notes))
end
commit_counts()
return replies
