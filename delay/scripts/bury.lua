-- bury makes jobs dead at once, in whatever state but dead they are.
-- ARGV[3…]: for each job id, push, token, attempt, reason.
-- Returns for each job the reply of flight.lua; outcomes: ok, same (this ack did it before), none, push, attempt, early, state.
call('ZREM', running, '')
local us = now()
local replies = {}
local letters = { delayed = 'd', ready = 'r', inflight = 'i' }
for i = 3, #ARGV, 5 do
  local id, push, token, attempt, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local outcome, t, record, state, score, gone = flight(id, push, token, attempt, us)
  if outcome ~= 'ok' and outcome ~= 'early' then
    replies[#replies + 1] = reply(outcome, state, score, gone)
  elseif state == 'dead' then
    local same = token ~= '' and t.phase == 'b'
    replies[#replies + 1] = reply(same and 'same' or 'state', state, score)
  else
    if outcome == 'ok' then certain(t) end
    t.reason, t.phase = reason, 'b'
    land(id, t, outcome == 'early' and 'i' or letters[state], nil, us)
    state, score = state_of(id)
    replies[#replies + 1] = reply('ok', state, score, format_try(t), record, body_of(id, record))
  end
end
commit_counts()
return replies
