-- finish removes jobs, in whatever state they are.
-- ARGV[3…]: for each job id, push ('' by id).
-- Returns for each job one of: 0 not there | -1 the id belongs to another push now | the letter of its state (d, r, i,
-- x), then the value of tries of the delivery that was in flight, or else the topic.
call('ZREM', running, '')
local ids, replies = {}, {}
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local values = call('HMGET', tries, unpack(ids))
local gone, seen, letters = {}, {}, { delayed = 'd', ready = 'r', dead = 'x', inflight = 'i' }

-- found gives push, topic and state of an id, or nil where there is no such job.
local function found(i, id)
  local push, phase, topic = (values[i] or ''):match('^(%d+) %d+ %d+ %d+ %S+ (%a) (%S+)')
  if phase == 'l' or phase == 'c' then return push, topic, 'inflight' end
  local record = call('HGET', pool, id)
  if not record then return nil end
  topic, push = record:match('^%S+ (%S+) (%d+)')
  return push or '', topic or '', (state_of(id))
end

for i, id in ipairs(ids) do
  local wanted = ARGV[i * 2 + 2]
  local push, topic, state = found(i, id)
  if seen[id] or not push then
    replies[i] = 0
  elseif wanted ~= '' and wanted ~= push then
    replies[i] = -1
  else
    seen[id] = true
    gone[#gone + 1] = id
    replies[i] = letters[state] .. (state == 'inflight' and values[i] or topic)
    count(letters[state], topic, -1)
    if state == 'delayed' then call('ZREM', bucket, id) end
    if state == 'dead' then call('ZREM', dead, id) end
  end
end
if #gone > 0 then
  remove(gone)
  call('ZREM', running, unpack(gone))
end
commit_counts()
return replies
