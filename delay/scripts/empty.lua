-- empty removes the first ready jobs of a topic's list.
-- KEYS[10]: the list. ARGV[3]: topic. ARGV[4]: entries to look at.
-- Returns the number of jobs removed | entries left in the list.
call('ZREM', running, '')
local topic = ARGV[3]
local ids = call('LRANGE', KEYS[10], 0, tonumber(ARGV[4]) - 1)
local gone, seen, alien = {}, {}, {}
for _, id in ipairs(ids) do
  local record = call('HGET', pool, id)
  if record and not record:find('^1o?e? ') then
    alien[#alien + 1] = id
  elseif record and not seen[id] and record:match('^%S+ (%S+)') == topic and state_of(id) == 'ready' then
    seen[id] = true
    gone[#gone + 1] = id
  end
end
remove(gone)
if #alien > 0 then call('RPUSH', KEYS[10], unpack(alien)) end
behead(topic, #ids)
count('r', topic, -#gone)
commit_counts()
return { #gone, call('LLEN', KEYS[10]) - #alien }
