-- push stores jobs: delayed, or ready where they are due now. An id stands once in a call that replaces it.
-- ARGV[3]: longest delay, ms. Then runs of jobs that have much in common: how many, their topic, when ('+ms' from now or
-- absolute ms), flags (o body beside the record, e expires, r replaces, g the id is generated: a duplicate is no outcome
-- of the push); and for each job its id, the record's tail, with flag o the body beside it.
-- KEYS[10], only where pushes come from a stream: the set of the marks of its messages. Then each job has two arguments
-- more: sequence and mark of its message, the mark '' where it has none.
-- Returns µs now, then for each job one of: due ms (negative where it is ready at once) | {state, due ms, topic} of the
-- stored job with this id, which stays | {replaced, due ms (negative as above), topic} | {leased} its delivery is not
-- certain yet | far: the moment is beyond the longest delay | {again} this very push was stored before. At the end: the
-- bucket's watch, µs, where the caller keeps it from now on, 0 where it need not.
local seen = KEYS[10]

-- The jobs in their order: what each has of its own, and its run.
local ids, tails, besides, runs, marks, n = {}, {}, {}, {}, {}, 0
local at = 4
while at <= #ARGV do
  local run = { topic = ARGV[at + 1], when = ARGV[at + 2], flags = ARGV[at + 3] }
  local beside = run.flags:find('o')
  local last = n + tonumber(ARGV[at])
  at = at + 4
  while n < last do
    n = n + 1
    ids[n], tails[n], runs[n] = ARGV[at], ARGV[at + 1], run
    at = at + 2
    if beside then
      besides[n], at = ARGV[at], at + 1
    end
    if seen then
      marks[n], at = { ARGV[at], ARGV[at + 1] }, at + 2
    end
  end
end

local us, _, number, watch = now(n)
local ms, up = math.floor(us / 1000), math.ceil(us / 1000)
local known = call('HMGET', pool, unpack(ids))
local replies, fresh, records, outside, delayed, groups = { us }, {}, {}, {}, {}, {}
local longest, soonest = tonumber(ARGV[3]) + 1, math.huge -- soonest: when the first of the delayed ones is due, ms
local filed, waiting = 0, 0 -- entries of records and delayed

-- due_of gives the moment that jobs are due, and the one they count as pushed at.
local function due_of(when)
  if when == '+0' then return ms, ms end
  if when:sub(1, 1) == '+' then return up + tonumber(when), up end
  local moment = tonumber(when)
  if moment <= ms then return ms, ms end
  return moment, math.min(up, moment)
end

-- times fills in what the jobs of a run share: when they are due, and how their records begin and go on behind the push.
local function times(run)
  local pushed
  run.due, pushed = due_of(run.when)
  run.score, run.late, run.far = int(run.due), run.due > ms, run.due - ms > longest
  run.begins = '1' .. run.flags:gsub('[rg]', '') .. ' ' .. run.topic .. ' '
  run.goes_on = ' ' .. int(pushed) .. ' ' .. run.score .. ' '
end

-- stored gives state, due ms and topic of a job that has a record.
local function stored(id, record)
  local topic, due = record:match('^%S+ (%S+)'), record:match('^1o?e? %S+ %d+ %d+ (%d+)')
  local state, score = state_of(id)
  if state == 'delayed' then due = score end
  return { state, tonumber(due or 0), topic or '' }
end

-- clear makes room for a job that takes the place of a stored one; listed says that its list may keep the id.
local function clear(id, old, listed)
  local state, topic = old[1], old[3]
  if state == 'delayed' then call('ZREM', bucket, id) end
  if state == 'dead' then call('ZREM', dead, id) end
  call('HDEL', tries, id)
  call('HDEL', bodies, id)
  count(({ delayed = 'd', ready = 'r', dead = 'x' })[state], topic, -1)
  return state == 'ready' and listed
end

-- twin is what stored would give of a job of this call.
local function twin(i)
  local due = replies[i + 1]
  if type(due) == 'table' then due = due[2] end
  return { due > ms and 'delayed' or 'ready', math.abs(due), runs[i].topic }
end

-- store notes what to write for a job; listed says that its id stands in the topic's list already.
local function store(i, listed)
  local id, run = ids[i], runs[i]
  if besides[i] then outside[#outside + 1], outside[#outside + 2] = id, besides[i] end
  records[filed + 1], records[filed + 2] = id, run.begins .. int(number + i) .. run.goes_on .. tails[i]
  filed = filed + 2
  fresh[id] = i
  run.stored = (run.stored or 0) + 1
  if run.late then
    delayed[waiting + 1], delayed[waiting + 2] = run.score, id
    waiting = waiting + 2
    return run.due
  end
  if not listed then
    groups[run.topic] = groups[run.topic] or {}
    table.insert(groups[run.topic], id)
  end
  return -run.due
end

-- known_marks gives for each job whether its mark was noted by an earlier call.
local function known_marks()
  local names = {}
  for i = 1, n do names[i] = marks[i][2] end
  return call('ZMSCORE', seen, unpack(names))
end
local noted, notes, again = {}, {}, seen and known_marks()

-- note remembers that a push was carried out.
local function note(i)
  if not seen or marks[i][2] == '' then return end
  notes[#notes + 1], notes[#notes + 2] = marks[i][1], marks[i][2]
  noted[marks[i][2]] = true
end

-- met gives the reply to a push whose id is stored, and carries it out where it replaces that job.
local function met(i, old)
  local id, run = ids[i], runs[i]
  if not run.flags:find('r') or old[3] ~= run.topic then
    if old[3] == run.topic and not run.flags:find('g') then note(i) end
    return old
  end
  if old[1] == 'inflight' then
    local t = parse_try(call('HGET', tries, id))
    return t and t.phase == 'l' and { 'leased', 0, run.topic } or old
  end
  if run.far then return 'far' end
  local listed = clear(id, old, not run.late)
  note(i)
  return { 'replaced', store(i, listed), run.topic }
end

-- unusual carries out a push that is more than a new job.
local function unusual(i)
  local id, run = ids[i], runs[i]
  local old = fresh[id] and twin(fresh[id]) or known[i] and stored(id, known[i])
  if seen and (again[i] or noted[marks[i][2]]) then return { 'again', 0, run.topic } end
  if old then return met(i, old) end
  if run.far then return 'far' end
  note(i)
  return store(i, false)
end

for i = 1, n do
  local run = runs[i]
  if not run.due then times(run) end
  if known[i] or fresh[ids[i]] or run.far or seen then
    replies[i + 1] = unusual(i)
  else
    replies[i + 1] = store(i, false)
  end
  if run.stored and runs[i + 1] ~= run then
    count(run.late and 'd' or 'r', run.topic, run.stored)
    if run.late then soonest = math.min(soonest, run.due) end
  end
end

if #records > 0 then call('HSET', pool, unpack(records)) end
if #outside > 0 then call('HSET', bodies, unpack(outside)) end
if #delayed > 0 then call('ZADD', bucket, unpack(delayed)) end
for topic, list in pairs(groups) do enlist('RPUSH', topic, list, us) end
-- Behind the jobs: a mark whose job was not stored would lose it.
if #notes > 0 then call('ZADD', seen, unpack(notes)) end
commit_counts()
local first = soonest * 1000
if first - us <= watch_ahead and not keeps_watch(watch, us, first) then
  call('HSET', clock, 'watch', int(first))
  replies[n + 2] = first
else
  replies[n + 2] = 0
end
return replies
