-- prelude: what every script of a bucket begins with; keys.go says what the keys hold.
-- KEYS[1..9]: the bucket's keys in the order of bucketKeys.fixed.
-- ARGV[1]: prefix of the bucket's topic lists. ARGV[2]: ms added to the clock (tests move time by it).
local pool, bodies, bucket, running = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local tries, dead, topics, active, clock = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local lists, shift = ARGV[1], tonumber(ARGV[2])

local call = redis.call

-- int writes a number of up to 2^53 without its fraction; '..' would round it to 14 digits.
local function int(x) return string.format('%d', x) end

-- behind gives the bucket's time where Redis's clock, us, is behind the last time given, and by how much it is ahead.
-- After a step of over a second (another server, a clock put right) it runs on from the last time, a 64th slower, until
-- Redis's clock has caught up. The field step of clock: that last time, and Redis's clock then.
local function behind(us, last)
  local from, since = (call('HGET', clock, 'step') or ''):match('^(%d+) (-?%d+)$')
  local slow = from and tonumber(from) + math.floor((us - tonumber(since)) * 63 / 64) or 0
  if slow >= last then return slow, slow - us end
  if last - us <= 1000000 then return last, 0 end
  call('HSET', clock, 'step', int(last) .. ' ' .. int(us))
  return last, last - us
end

-- now gives the bucket's time, µs since 1970: Redis's clock, but never less than the last time given; by how many µs it
-- is ahead of that clock; the bucket's counter of pushes and deliveries, from which it takes so many numbers; and its watch.
local function now(take)
  local t = call('TIME')
  local us, ahead = t[1] * 1000000 + t[2] + shift * 1000, 0
  local kept = call('HMGET', clock, 'now', 'seq', 'watch')
  local last, number = tonumber(kept[1] or 0), tonumber(kept[2] or 0)
  if us < last then us, ahead = behind(us, last) end
  if take then
    call('HSET', clock, 'now', int(us), 'seq', int(number + take))
  elseif us - last >= 1000 then
    call('HSET', clock, 'now', int(us))
  end
  return us, ahead, number, tonumber(kept[3] or 0)
end

-- A bucket's watch is the moment, µs, at which one of its replicas has promised to look for what is due, 0 or in the past
-- where none has: so not all of them wake up for each job. It is never more than a second ahead, and the others look a little
-- later whether it was kept, so a replica that dies does not take its promise with it.
local watch_ahead, watch_grace = 1000000, 400000

-- keeps_watch reports whether somebody looks at a moment or before it.
local function keeps_watch(watch, us, moment) return watch > us and watch <= moment end

-- count notes a change of the number of jobs of a topic in a state (d, r, i, x); commit_counts writes all notes.
local delta = { d = {}, r = {}, i = {}, x = {} }
local function count(state, topic, n)
  local of = delta[state]
  of[topic] = (of[topic] or 0) + n
end
local function commit_counts()
  for state, of in pairs(delta) do
    for topic, n in pairs(of) do
      local field = state .. ':' .. topic
      if n ~= 0 and call('HINCRBY', topics, field, n) == 0 then call('HDEL', topics, field) end
    end
  end
end

-- enlist puts ids on the end ('RPUSH') or the head ('LPUSH') of a topic's list. The field p:<topic> counts what left
-- the head of the list since it was last empty, so that a page of it can go on where the last one ended.
local function enlist(push, topic, ids, us)
  if call(push, lists .. topic, unpack(ids)) == #ids then
    call('ZADD', active, int(us / 1000), topic)
  elseif push == 'LPUSH' then
    call('HINCRBY', topics, 'p:' .. topic, -#ids)
  end
end

-- behead takes the first n ids off a topic's list.
local function behead(topic, n)
  if n == 0 then return end
  call('LTRIM', lists .. topic, n, -1)
  if call('EXISTS', lists .. topic) == 1 then
    call('HINCRBY', topics, 'p:' .. topic, n)
  else
    call('HDEL', topics, 'p:' .. topic)
    call('ZREM', active, topic)
  end
end

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

-- state_of gives the state of an id that has a record, and its score where it has one.
local function state_of(id)
  local score = call('ZSCORE', running, id)
  if score then return 'inflight', score end
  score = call('ZSCORE', bucket, id)
  if score then return 'delayed', score end
  score = call('ZSCORE', dead, id)
  if score then return 'dead', score end
  return 'ready', '0'
end

-- body_of gives the body that is kept beside the record, or an empty string.
local function body_of(id, record)
  if not record:find('^%d+o') then return '' end
  return call('HGET', bodies, id) or ''
end

-- expired reports whether a job that was never delivered is later than it may be; only records flagged e can be, and of
-- another version nobody can tell.
local function expired(record, ms)
  local due, options = record:match('^1o?e %S+ %d+ %d+ (%d+) %d+([^\n]*)\n')
  return due and ms - tonumber(due) > tonumber(options:match(' e(%d+)') or 1e15)
end

-- remove takes all traces of ids but those in the sets of their states.
local function remove(ids)
  if #ids == 0 then return end
  call('HDEL', pool, unpack(ids))
  if call('EXISTS', bodies) == 1 then call('HDEL', bodies, unpack(ids)) end
  call('HDEL', tries, unpack(ids))
end

-- pause_after gives the ms to wait after the delivery numbered attempt, or nil where that was the last one. A job of
-- another version comes again at once.
local function pause_after(record, attempt)
  local options = record:match('^1o?e? %S+ %d+ %d+ %d+ %d+([^\n]*)\n') or ''
  local max = tonumber(options:match(' m(%d+)') or 0)
  if max > 0 and attempt >= max then return nil end
  local pause, i = 0, 0
  for p in (options:match(' b([%d,]+)') or ''):gmatch('%d+') do
    pause, i = tonumber(p), i + 1
    if i == attempt then break end
  end
  return pause
end

-- land takes a job out of a state (i, d or r) and makes it ready again, delayed for pause ms, or dead where pause is nil.
local function land(id, t, from, pause, us)
  local ms = us / 1000
  if not pause then
    call('ZADD', dead, int(ms), id)
    count('x', t.topic, 1)
  elseif pause > 0 then
    call('ZADD', bucket, int(math.ceil(ms) + pause), id)
    count('d', t.topic, 1)
  else
    enlist('RPUSH', t.topic, { id }, us)
    count('r', t.topic, 1)
  end
  if from == 'i' then call('ZREM', running, id) end
  if from == 'd' then call('ZREM', bucket, id) end
  call('HSET', tries, id, format_try(t))
  count(from, t.topic, -1)
end

-- first_try is what tries says of a job that was never delivered.
local function first_try(push, topic)
  return { push = push, token = '0', n = 0, base = 0, owner = '-', phase = 'v', topic = topic }
end
