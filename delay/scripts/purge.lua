-- purge removes jobs of a topic that are still in a state.
-- ARGV[3]: topic. ARGV[4]: 'delayed', 'inflight' or 'dead'. ARGV[5…]: ids.
-- Returns {id, …} of those removed | {value of tries, …} of the deliveries that ended with them.
call('ZREM', running, '')
local topic, state = ARGV[3], ARGV[4]
local set = ({ delayed = bucket, inflight = running, dead = dead })[state]
local letter = ({ delayed = 'd', inflight = 'i', dead = 'x' })[state]
local gone, ended = {}, {}
for i = 5, #ARGV do
  local id = ARGV[i]
  local record = call('HGET', pool, id)
  if record and record:match('^%S+ (%S+)') == topic and call('ZSCORE', set, id) then
    gone[#gone + 1] = id
    if state == 'inflight' then ended[#ended + 1] = call('HGET', tries, id) or '' end
  end
end
remove(gone)
if #gone > 0 then call('ZREM', set, unpack(gone)) end
count(letter, topic, -#gone)
commit_counts()
return { gone, ended }
