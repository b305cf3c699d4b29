-- compact turns a topic's list by one block: ids at its head that are ready go to its end, the others go away.
-- KEYS[10]: the list. ARGV[3]: topic. ARGV[4]: entries of the block. ARGV[5]: how many entries more than ready jobs a list may have.
-- Returns the number of entries that went away.
call('ZREM', running, '')
local us = now()
local topic = ARGV[3]
local ready = tonumber(call('HGET', topics, 'r:' .. topic) or 0)
if call('LLEN', KEYS[10]) - ready <= tonumber(ARGV[5]) then return 0 end
local ids = call('LRANGE', KEYS[10], 0, tonumber(ARGV[4]) - 1)
local kept, seen = {}, {}
for _, id in ipairs(ids) do
  local record = call('HGET', pool, id)
  if record and not seen[id] and record:match('^%S+ (%S+)') == topic and state_of(id) == 'ready' then
    seen[id] = true
    kept[#kept + 1] = id
  end
end
if #kept > 0 then call('RPUSH', KEYS[10], unpack(kept)) end
behead(topic, #ids)
return #ids - #kept
