-- retain drops dead jobs.
-- ARGV[3]: ms after which a dead job is dropped, 0 never. ARGV[4]: at most so many of those. ARGV[5…]: ids that are
-- dropped whatever their age.
-- Returns the number of jobs dropped for their age | the number of the named ones that were dropped.
call('ZREM', running, '')
local us = now()
local age, limit = tonumber(ARGV[3]), tonumber(ARGV[4])
local old, named = {}, {}
if age > 0 then
  old = call('ZRANGEBYSCORE', dead, '-inf', int(us / 1000 - age), 'LIMIT', 0, limit)
end
local dropped = {}
for _, id in ipairs(old) do dropped[id] = true end
for i = 5, #ARGV do
  if not dropped[ARGV[i]] and call('ZSCORE', dead, ARGV[i]) then named[#named + 1] = ARGV[i] end
end
for _, ids in ipairs({ old, named }) do
  for _, id in ipairs(ids) do
    local record = call('HGET', pool, id)
    local topic = record and record:match('^%S+ (%S+)')
    if topic then count('x', topic, -1) end
  end
  remove(ids)
  if #ids > 0 then call('ZREM', dead, unpack(ids)) end
end
commit_counts()
return { #old, #named }
