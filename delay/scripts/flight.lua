-- flight: beside the prelude for the verbs that workers send about a delivery.
-- Each entry names id, push and token of an ack ('' by id), and the attempt it is about ('' any).

local lease_ms = 5000 -- LeaseTime in deliver.go

-- hand_over removes a job without a TTR whose worker answers before its delivery was confirmed: it is gone with that.
local function hand_over(id, t)
  remove({ id })
  call('ZREM', running, id)
  count('i', t.topic, -1)
  return 'none', nil, nil, nil, nil, format_try(t)
end

-- flight gives the job's tries value, record, state and score behind the word ok; else a word, and where there is a job
-- the same: none (with the tries value of a delivery that ended by this, last), push (the id belongs to another push
-- now), attempt (an older delivery), early (by id, of a job that is leased and not due yet: nobody can have it).
local function flight(id, push, token, attempt, us)
  local record = call('HGET', pool, id)
  if not record then return 'none' end
  local t = parse_try(call('HGET', tries, id))
  local topic, current, ttr = record:match('^1o?e? (%S+) (%d+) %d+ %d+ (%d+)')
  if not current then -- a replica of another version stored it, and may have delivered it
    topic, current = record:match('^%S+ (%S+)'), t and t.push or '0'
  end
  if push ~= '' and push ~= current then return 'push' end
  if not t or t.push ~= current then
    t = first_try(current, topic)
  end
  local state, score = state_of(id)
  local number = t.n - t.base + (t.phase == 'l' and 1 or 0)
  if token ~= '' and token ~= t.token or attempt ~= '' and tonumber(attempt) ~= number then
    return 'attempt', t, record, state, score
  end
  local due = tonumber(score) - lease_ms -- of a lease
  if token .. attempt == '' and state == 'inflight' and t.phase == 'l' and due > math.ceil(us / 1000) then
    return 'early', t, record, 'delayed', due
  end
  if ttr == '0' and state == 'inflight' and t.phase == 'l' then return hand_over(id, t) end
  return 'ok', t, record, state, score
end

-- certain counts the attempt of a delivery that is only leased: a worker that answers has it.
local function certain(t)
  if t.phase == 'l' then t.n, t.phase = t.n + 1, 'c' end
end

-- reply gives outcome, state and its ms, the tries value from before, and of a job that is dead now record and body.
local function reply(outcome, state, ms, before, record, body)
  return { outcome, state or '', tonumber(ms or 0), before or '', record or '', body or '' }
end
