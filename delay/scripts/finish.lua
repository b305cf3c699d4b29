-- finish removes jobs, in whatever state they are.
-- ARGV[3…]: for each job id, push ('' by id).
-- Returns for each job one of: 0 not there | -1 the id belongs to another push now | the value of tries of the delivery that
-- was in flight, which begins with a digit | the letter of its state (d, r, x) and its topic.
-- Its first write only removes: a Redis that is full takes it.
local ids, wanted, replies, n = {}, {}, {}, 0
for i = 3, #ARGV, 2 do
  n = n + 1
  ids[n], wanted[n] = ARGV[i], ARGV[i + 1]
end
local values = call('HMGET', tries, unpack(ids))
local gone, left, seen, letters = {}, 0, {}, { delayed = 'd', ready = 'r', dead = 'x', inflight = 'i' }

-- found gives push, topic and letter of the state of an id, or nil where there is no such job.
local function found(i, id)
  local push, phase, topic = (values[i] or ''):match('^(%d+) %d+ %d+ %d+ %S+ (%a) (%S+)')
  if phase == 'c' or phase == 'l' then return push, topic, 'i' end
  local record = call('HGET', pool, id)
  if not record then return nil end
  topic, push = record:match('^%S+ (%S+) (%d+)')
  return push or '', topic or '', letters[(state_of(id))]
end

for i = 1, n do
  local id = ids[i]
  local push, topic, letter = found(i, id)
  if not push or seen[id] then
    replies[i] = 0
  elseif wanted[i] ~= push and wanted[i] ~= '' then
    replies[i] = -1
  else
    left = left + 1
    seen[id], gone[left] = true, id
    replies[i] = letter == 'i' and values[i] or letter .. topic
    count(letter, topic, -1)
    if letter == 'd' then call('ZREM', bucket, id) end
    if letter == 'x' then call('ZREM', dead, id) end
  end
end
if left > 0 then
  remove(gone)
  call('ZREM', running, unpack(gone))
end
commit_counts()
return replies
