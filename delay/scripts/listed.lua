-- listed reads on in a topic's list of ready jobs.
-- KEYS[10]: the list. ARGV[3]: topic. ARGV[4]: position to go on from, counted from when the list was last empty; '' its head.
-- ARGV[5]: entries to look at.
-- Returns µs now | 1 where the list ends here | position to go on from | {id, 'ready', 0, value of tries, record without
-- its body, '', …}.
local us = now()
local topic, limit = ARGV[3], tonumber(ARGV[5])
local gone = tonumber(call('HGET', topics, 'p:' .. topic) or 0)
local start = ARGV[4] == '' and 0 or math.max(tonumber(ARGV[4]) - gone, 0)
local ids = call('LRANGE', KEYS[10], start, start + limit - 1)
local rows, seen = {}, {}
for _, id in ipairs(ids) do
  local record = call('HGET', pool, id)
  if record and not seen[id] and record:match('^%S+ (%S+)') == topic and state_of(id) == 'ready' then
    seen[id] = true
    local line = record:find('\n', 1, true) or #record
    local headers = record:sub(1, line):match(' h(%d+)')
    for _, part in ipairs({ id, 'ready', 0, call('HGET', tries, id) or '', record:sub(1, line + tonumber(headers or 0)), '' }) do
      rows[#rows + 1] = part
    end
  end
end
return { us, #ids < limit and 1 or 0, start + gone + #ids, rows }
