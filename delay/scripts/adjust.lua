-- adjust changes counters of jobs by as much as a full count found them off, and puts the set of active topics right.
-- ARGV[3]: topic whose list is looked at for active, '' none. ARGV[4…]: field ('<state>:<topic>'), difference.
-- Returns 1 where active was wrong, else 0.
call('ZREM', running, '')
local us = now()
for i = 4, #ARGV, 2 do
  if call('HINCRBY', topics, ARGV[i], tonumber(ARGV[i + 1])) == 0 then call('HDEL', topics, ARGV[i]) end
end
if ARGV[3] == '' then return 0 end
local listed = call('EXISTS', lists .. ARGV[3]) == 1
local known = call('ZSCORE', active, ARGV[3])
if listed and not known then
  call('ZADD', active, int(us / 1000), ARGV[3])
  return 1
end
if known and not listed then
  call('ZREM', active, ARGV[3])
  return 1
end
return 0
