-- mend puts ids right that are in no state, in two, or without a record. Counters are not touched: adjust.lua does that.
-- ARGV[3]: 1 to mend, 0 only to look. ARGV[4]: the longest list that is searched for an id. ARGV[5…]: ids.
-- Returns for each id: fine | orphan (no record; its traces go) | double (in several sets; the one that delivers it first
-- stays) | lost (in no set and in no list; it is delayed again where it is due later, else ready) | long (its list is too
-- long to be searched) | unknown
-- (a record of a format that is not known; it is left alone).
call('ZREM', running, '')
local us = now()
local mend, longest = ARGV[3] == '1', tonumber(ARGV[4])

local function without_record(id)
  local traces = call('HEXISTS', tries, id) + call('HEXISTS', bodies, id)
  for _, set in ipairs({ bucket, running, dead }) do
    if call('ZSCORE', set, id) then traces = traces + 1 end
    if mend then call('ZREM', set, id) end
  end
  if mend then remove({ id }) end
  return traces > 0 and 'orphan' or 'fine'
end

local function with_record(id, topic, due)
  local sets = {}
  for _, set in ipairs({ running, bucket, dead }) do
    if call('ZSCORE', set, id) then sets[#sets + 1] = set end
  end
  if #sets > 1 then
    for i = 2, #sets do
      if mend then call('ZREM', sets[i], id) end
    end
    return 'double'
  end
  if #sets == 1 then return 'fine' end
  local list = lists .. topic
  if call('LLEN', list) > longest then return 'long' end
  if call('LPOS', list, id) then return 'fine' end
  if mend and due > us / 1000 then
    call('ZADD', bucket, int(due), id)
  elseif mend then
    enlist('RPUSH', topic, { id }, us)
  end
  return 'lost'
end

local replies = {}
for i = 5, #ARGV do
  local record = call('HGET', pool, ARGV[i])
  local topic, due
  if record then topic, due = record:match('^1o?e? (%S+) %d+ %d+ (%d+) %d+') end
  if not record then
    replies[#replies + 1] = without_record(ARGV[i])
  elseif not topic then
    replies[#replies + 1] = 'unknown'
  else
    replies[#replies + 1] = with_record(ARGV[i], topic, tonumber(due))
  end
end
return replies
