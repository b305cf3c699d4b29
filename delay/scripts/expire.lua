-- expire looks through the head of a topic's list for ready jobs that are too late for their first delivery.
-- KEYS[10]: the list. ARGV[3]: topic. ARGV[4]: entries to look at.
-- Returns {id, value of tries, record, body, …} of the jobs that are dead now | the number of jobs that may expire later.
call('ZREM', running, '')
local us = now()
local topic = ARGV[3]
local died, later, seen = {}, 0, {}
for _, id in ipairs(call('LRANGE', KEYS[10], 0, tonumber(ARGV[4]) - 1)) do
  local record = call('HGET', pool, id)
  local push = record and record:match('^1o?e %S+ (%d+)')
  if push and not seen[id] and record:match('^%S+ (%S+)') == topic and state_of(id) == 'ready' then
    seen[id] = true
    local t = parse_try(call('HGET', tries, id)) or first_try(push, topic)
    if t.n == t.base and expired(record, us / 1000) then
      t.reason = 'expired'
      land(id, t, 'r', nil, us)
      for _, part in ipairs({ id, format_try(t), record, body_of(id, record) }) do died[#died + 1] = part end
    else
      later = later + 1
    end
  end
end
commit_counts()
return { died, later }
