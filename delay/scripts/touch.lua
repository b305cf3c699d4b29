-- touch starts the TTR of a delivery again.
-- ARGV[3…]: for each job id, push, token, attempt.
-- Returns for each job the reply of flight.lua; outcomes: ok, none, push, attempt, early, state.
call('ZREM', running, '')
local us = now()
local replies = {}
for i = 3, #ARGV, 4 do
  local id = ARGV[i]
  local outcome, t, record, state, score, gone = flight(id, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], us)
  if outcome == 'ok' and state ~= 'inflight' then outcome = 'state' end
  local ttr = outcome == 'ok' and tonumber(record:match('^%S+ %S+ %d+ %d+ %d+ (%d+)')) or 0
  if ttr > 0 then
    certain(t)
    score = math.ceil(us / 1000) + ttr
    call('ZADD', running, int(score), id)
    call('HSET', tries, id, format_try(t))
  end
  replies[#replies + 1] = reply(outcome, state, score, gone)
end
commit_counts()
return replies
