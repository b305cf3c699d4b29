-- confirm makes leases certain: the attempt counts and the TTR starts; with a TTR of 0 the job is gone.
-- ARGV[3…]: for each job id, token, ms of TTR.
-- Returns for each job 1 (also where this was done before), or 0 where its lease is over or it was settled already.
redis.call('ZREM', running, '')
local ms = math.ceil(now() / 1000)
local ids, replies = {}, {}
for i = 3, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
local values = redis.call('HMGET', tries, unpack(ids))
local deadlines, notes, gone = {}, {}, {}
for i, id in ipairs(ids) do
  local t = parse_try(values[i])
  local ttr = tonumber(ARGV[i * 3 + 2])
  replies[i] = t and t.token == ARGV[i * 3 + 1] and t.phase == 'c' and 1 or 0
  if t and t.token == ARGV[i * 3 + 1] and t.phase == 'l' then
    replies[i] = 1
    if ttr == 0 then
      gone[#gone + 1] = id
      count('i', t.topic, -1)
    else
      t.n, t.phase = t.n + 1, 'c'
      deadlines[#deadlines + 1] = int(ms + ttr)
      deadlines[#deadlines + 1] = id
      notes[#notes + 1] = id
      notes[#notes + 1] = format_try(t)
    end
  end
end
if #notes > 0 then
  redis.call('ZADD', running, unpack(deadlines))
  redis.call('HSET', tries, unpack(notes))
end
if #gone > 0 then
  remove(gone)
  redis.call('ZREM', running, unpack(gone))
end
commit_counts()
return replies
