-- kick makes dead jobs ready again, with a fresh budget of attempts.
-- ARGV[3…]: ids.
-- Returns for each id its topic, or {state} (unknown where there is no such job, or one of another version).
local us = now()
local replies = {}
for i = 3, #ARGV do
  local id = ARGV[i]
  local record = call('HGET', pool, id)
  local state = record and record:find('^1o?e? ') and state_of(id) or 'unknown'
  if state ~= 'dead' then
    replies[#replies + 1] = { state }
  else
    local version, topic, push, pushed, rest = record:match('^(%S+) (%S+) (%d+) (%d+) %d+ (.*)$')
    -- What expires counts from now on.
    if version:find('^1o?e$') then
      call('HSET', pool, id, table.concat({ version, topic, push, pushed, int(us / 1000), rest }, ' '))
    end
    local t = parse_try(call('HGET', tries, id)) or first_try(push, topic)
    -- No ack of a delivery before this one may touch the job.
    t.base, t.phase, t.reason, t.token = t.n, 'v', nil, '0'
    call('HSET', tries, id, format_try(t))
    enlist('RPUSH', topic, { id }, us)
    call('ZREM', dead, id)
    count('x', topic, -1)
    count('r', topic, 1)
    replies[#replies + 1] = topic
  end
end
commit_counts()
return replies
