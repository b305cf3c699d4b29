-- flight: beside the prelude for the verbs that workers send about a delivery.
-- Each entry names id, push and token of an ack ('' by id), and the attempt it is about ('' any).

-- flight gives the job's tries value, record, state and score; or only a word: none, push (the id belongs to another
-- push now), attempt (an older delivery).
local function flight(id, push, token, attempt)
  local record = redis.call('HGET', pool, id)
  if not record then return 'none' end
  local topic, current = record:match('^%S+ (%S+) (%d+)')
  if push ~= '' and push ~= current then return 'push' end
  local t = parse_try(redis.call('HGET', tries, id))
  if not t or t.push ~= current then
    t = first_try(current, topic)
  end
  local number = t.n - t.base + (t.phase == 'l' and 1 or 0)
  if token ~= '' and token ~= t.token then return 'attempt', t, record, state_of(id) end
  if attempt ~= '' and tonumber(attempt) ~= number then return 'attempt', t, record, state_of(id) end
  return 'ok', t, record, state_of(id)
end

-- certain counts the attempt of a delivery that is only leased: a worker that answers has it.
local function certain(t)
  if t.phase == 'l' then t.n, t.phase = t.n + 1, 'c' end
end

-- reply gives outcome, state and its ms, the tries value from before, and of a job that is dead now record and body.
local function reply(outcome, state, ms, before, record, body)
  return { outcome, state or '', tonumber(ms or 0), before or '', record or '', body or '' }
end
