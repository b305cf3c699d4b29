-- oldest tells how long the jobs of a bucket wait that wait longest.
-- ARGV[3]: how many topics are looked at: those whose lists were not empty for longest. The oldest job is in one of them,
-- unless so many others have had jobs without a break for longer than it waits.
-- Returns: µs that a delayed job is overdue, 0 where none is | µs since a job was due that is ready, at the head of its
-- list, and waits for its first delivery, 0 where there is none.
call('ZREM', running, '')
local us = now()
local overdue, waits = 0, 0
local first = call('ZRANGE', bucket, 0, 0, 'WITHSCORES')[2]
if first then overdue = math.max(us - tonumber(first) * 1000, 0) end
local longest = call('ZRANGE', active, 0, tonumber(ARGV[3]) - 1, 'WITHSCORES')
for i = 1, #longest, 2 do
  local topic, since = longest[i], tonumber(longest[i + 1])
  local id = call('LRANGE', lists .. topic, 0, 0)[1]
  local record = id and call('HGET', pool, id)
  local filed, due = (record or ''):match('^1o?e? (%S+) %d+ %d+ (%d+) ')
  local t = filed == topic and parse_try(call('HGET', tries, id))
  if filed == topic and (not t or t.n == t.base) and state_of(id) == 'ready' then
    -- A job that was kicked keeps its due time: it waits since then at most, and no longer than its list is not empty.
    local kicked = t and (t.base > 0 or t.token == '0')
    waits = math.max(waits, us - math.max(tonumber(due), kicked and since or 0) * 1000)
  end
end
return { overdue, waits }
