-- confirm makes leases certain: the attempt counts and the TTR starts; with a TTR of 0 the job is gone.
-- ARGV[3…]: for each job id, token, ms of TTR, the value of tries of its lease, and the one it has from now on; the two are
-- empty where the caller does not know them.
-- Returns for each job 1 (also where this was done before), or 0 where its lease is over or it was settled already.
call('ZREM', running, '')
local ms = math.ceil(now() / 1000)
local ids, replies, n = {}, {}, 0
for i = 3, #ARGV, 5 do
  n = n + 1
  ids[n] = ARGV[i]
end
local values = call('HMGET', tries, unpack(ids))
local deadlines, notes, gone, ends, at = {}, {}, {}, {}, 0

-- hold notes that a delivery is certain, with its new value of tries.
local function hold(id, ttr, value)
  ends[ttr] = ends[ttr] or int(ms + tonumber(ttr))
  at = at + 2
  deadlines[at - 1], deadlines[at] = ends[ttr], id
  notes[at - 1], notes[at] = id, value
end

for i, id in ipairs(ids) do
  local from = i * 5 - 1
  local token, ttr, lease = ARGV[from], ARGV[from + 1], ARGV[from + 2]
  if lease ~= '' and lease == values[i] and ttr ~= '0' then
    replies[i] = 1
    hold(id, ttr, ARGV[from + 3])
  else
    local t = parse_try(values[i])
    local present = t and t.token == token
    replies[i] = present and (t.phase == 'c' or t.phase == 'l') and 1 or 0
    if present and t.phase == 'l' and ttr == '0' then
      gone[#gone + 1] = id
      count('i', t.topic, -1)
    elseif present and t.phase == 'l' then
      t.n, t.phase = t.n + 1, 'c'
      hold(id, ttr, format_try(t))
    end
  end
end
if at > 0 then
  call('ZADD', running, unpack(deadlines))
  call('HSET', tries, unpack(notes))
end
if #gone > 0 then
  remove(gone)
  call('ZREM', running, unpack(gone))
end
commit_counts()
return replies
