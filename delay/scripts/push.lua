-- push stores jobs: delayed, or ready where they are due now. An id stands once in a call that replaces it.
-- ARGV[3]: longest delay, ms. Then for each job: id, topic, when ('+ms' from now or absolute ms), flags (o body beside
-- the record, e expires, r replaces, g the id is generated: a duplicate is no outcome of the push), the record's tail, the body beside it or ''.
-- KEYS[10], only where pushes come from a stream: the set of the marks of its messages. Then each job has two arguments
-- more: sequence and mark of its message, the mark '' where it has none.
-- Returns µs now, then for each job one of: due ms (negative where it is ready at once) | {state, due ms, topic} of the
-- stored job with this id, which stays | {replaced, due ms (negative as above), topic} | {leased} its delivery is not
-- certain yet | far: the moment is beyond the longest delay | {again} this very push was stored before.
local seen = KEYS[10]
local first, width = 4, seen and 8 or 6
local n = (#ARGV - first + 1) / width
local us, _, number = now(n)
local ms, up = math.floor(us / 1000), math.ceil(us / 1000)
local up_text = int(up)
local filed, waiting = 0, 0 -- entries of records and delayed

local ids = {}
for i = 1, n do ids[i] = ARGV[first + (i - 1) * width] end
local known = call('HMGET', pool, unpack(ids))
local replies, fresh, records, outside, delayed, groups = { us }, {}, {}, {}, {}, {}

local function due_of(when)
  if when == '+0' then return ms, ms end
  if when:sub(1, 1) == '+' then return up + tonumber(when), up end
  local at = tonumber(when)
  if at <= ms then return ms, ms end
  return at, math.min(up, at)
end

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
  return { due > ms and 'delayed' or 'ready', math.abs(due), ARGV[first + (i - 1) * width + 1] }
end

-- store notes what to write for a job; listed says that its id stands in the topic's list already.
local function store(i, at, due, pushed, listed)
  local id, topic, flags, when = ARGV[at], ARGV[at + 1], ARGV[at + 3], int(due)
  if flags ~= '' then
    if flags:find('o') then outside[#outside + 1], outside[#outside + 2] = id, ARGV[at + 5] end
    flags = flags:gsub('[rg]', '')
  end
  filed = filed + 2
  records[filed - 1] = id
  records[filed] = '1' .. flags .. ' ' .. topic .. ' ' .. int(number + i) .. ' ' .. (pushed == up and up_text or int(pushed))
    .. ' ' .. when .. ' ' .. ARGV[at + 4]
  count(due > ms and 'd' or 'r', topic, 1)
  if due > ms then
    waiting = waiting + 2
    delayed[waiting - 1], delayed[waiting] = when, id
  elseif not listed then
    groups[topic] = groups[topic] or {}
    table.insert(groups[topic], id)
  end
  fresh[id] = i
  return due > ms and due or -due
end

-- known_marks gives for each job whether its mark was noted by an earlier call.
local function known_marks()
  local marks = {}
  for i = 1, n do marks[i] = ARGV[first + i * width - 1] end
  return call('ZMSCORE', seen, unpack(marks))
end
local noted, marks, again = {}, {}, seen and known_marks()

-- note remembers that the push at an argument was carried out.
local function note(at)
  local mark = seen and ARGV[at + 7] or ''
  if mark == '' then return end
  marks[#marks + 1], marks[#marks + 2] = ARGV[at + 6], mark
  noted[mark] = true
end

for i = 1, n do
  local at = first + (i - 1) * width
  local id, topic, replaces = ARGV[at], ARGV[at + 1], ARGV[at + 3]:find('r')
  local due, pushed = due_of(ARGV[at + 2])
  local old = fresh[id] and twin(fresh[id]) or known[i] and stored(id, known[i])
  if seen and (again[i] or noted[ARGV[at + 7]]) then
    replies[i + 1] = { 'again', 0, topic }
  elseif old and (not replaces or old[3] ~= topic) then
    replies[i + 1] = old
    if old[3] == topic and not ARGV[at + 3]:find('g') then note(at) end
  elseif old and old[1] == 'inflight' then
    local t = parse_try(call('HGET', tries, id))
    replies[i + 1] = t and t.phase == 'l' and { 'leased', 0, topic } or old
  elseif due - ms > tonumber(ARGV[3]) + 1 then
    replies[i + 1] = 'far'
  elseif old then
    local listed = clear(id, old, due <= ms)
    replies[i + 1] = { 'replaced', store(i, at, due, pushed, listed), topic }
    note(at)
  else
    replies[i + 1] = store(i, at, due, pushed, false)
    note(at)
  end
end

if #records > 0 then call('HSET', pool, unpack(records)) end
if #outside > 0 then call('HSET', bodies, unpack(outside)) end
if #delayed > 0 then call('ZADD', bucket, unpack(delayed)) end
for topic, list in pairs(groups) do enlist('RPUSH', topic, list, us) end
-- Behind the jobs: a mark whose job was not stored would lose it.
if #marks > 0 then call('ZADD', seen, unpack(marks)) end
commit_counts()
return replies
