-- records: what a job's record says of its further way.

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
