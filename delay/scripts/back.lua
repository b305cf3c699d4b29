-- back: beside the prelude for what takes deliveries back.
-- ARGV[3…]: for each job id, token.

-- take_back makes ready again, at the head of their list, the jobs whose delivery was none; ends is asked of each value of
-- tries whether it is that delivery, and takes back its count. Gives for each job 1, or 0 where that delivery is over.
local function take_back(ends)
  call('ZREM', running, '')
  local us = now()
  local ids, replies = {}, {}
  for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
  local values = call('HMGET', tries, unpack(ids))
  local notes, groups, back = {}, {}, {}
  for i = #ids, 1, -1 do
    local id, t = ids[i], parse_try(values[i])
    replies[i] = 0
    if t and t.token == ARGV[i * 2 + 2] and ends(t) then
      replies[i] = 1
      t.phase = 'v'
      groups[t.topic] = groups[t.topic] or {}
      table.insert(groups[t.topic], id)
      notes[#notes + 1], notes[#notes + 2] = id, format_try(t)
      back[#back + 1] = id
    end
  end
  for topic, list in pairs(groups) do
    enlist('LPUSH', topic, list, us)
    -- A list that held only this delivery has been ready since its first job was due, not since now.
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
end
