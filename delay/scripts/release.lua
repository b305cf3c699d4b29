-- release ends a flight on the worker's word: the job comes again, now or later, or is dead after its last attempt.
-- ARGV[3…]: for each job id, push, token, attempt, ms of delay ('' the job's backoff).
-- Returns for each job the reply of flight.lua; outcomes: ok, same (this ack did it before), none, push, attempt, early, state.
call('ZREM', running, '')
local us = now()
local replies = {}
for i = 3, #ARGV, 5 do
  local id, push, token, attempt, delay = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local outcome, t, record, state, score, gone = flight(id, push, token, attempt, us)
  if outcome ~= 'ok' then
    replies[#replies + 1] = reply(outcome, state, score, gone)
  elseif state ~= 'inflight' then
    local same = token ~= '' and t.phase == 'r'
    replies[#replies + 1] = reply(same and 'same' or 'state', state, score)
  else
    local before = format_try(t)
    certain(t)
    local pause = pause_after(record, t.n - t.base)
    if pause and delay ~= '' then pause = tonumber(delay) end
    t.phase = 'r'
    if not pause then t.reason = 'max_attempts' end
    land(id, t, 'i', pause, us)
    state, score = state_of(id)
    if state == 'ready' then score = us / 1000 end
    if pause then
      replies[#replies + 1] = reply('ok', state, score, before)
    else
      replies[#replies + 1] = reply('ok', state, score, format_try(t), record, body_of(id, record))
    end
  end
end
commit_counts()
return replies
