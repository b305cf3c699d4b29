-- tries: what is known of the deliveries of a job.

-- The value of tries: push, token, deliveries ever, deliveries before the present budget, owner, phase, topic, reason.
-- Phases, by what the last delivery came to: l leased, c confirmed, r released, v lease returned or run out, t TTR ran
-- out, b buried.
local function parse_try(v)
  if not v then return nil end
  local push, token, n, base, owner, phase, topic, reason =
    v:match('^(%d+) (%d+) (%d+) (%d+) (%S+) (%a) (%S+) ?(.*)$')
  if not push then return nil end
  return { push = push, token = token, n = tonumber(n), base = tonumber(base),
    owner = owner, phase = phase, topic = topic, reason = reason ~= '' and reason or nil }
end
local function format_try(t)
  local reason = t.reason and ' ' .. t.reason or ''
  return t.push .. ' ' .. t.token .. ' ' .. t.n .. ' ' .. t.base .. ' ' .. t.owner .. ' ' .. t.phase .. ' ' .. t.topic .. reason
end

-- first_try is what tries says of a job that was never delivered.
local function first_try(push, topic)
  return { push = push, token = '0', n = 0, base = 0, owner = '-', phase = 'v', topic = topic }
end
