-- promote makes ready what is due, and what was leased or delivered and not settled in time. Jobs of topics that are
-- offered it leases at once, where nothing of their topic is ready before them.
-- ARGV[3]: at most so many of each, and a quarter more of what became due within the last 5 s. ARGV[4]: owner of the leases.
-- ARGV[5]: their ms. ARGV[6]: bytes of their records at most. ARGV[7]: the watch that the caller keeps, -1 where it does not
-- know of any, -2 where it takes none any more. ARGV[8]: ms; jobs that become due so soon may be leased too, each until its
-- lease would end that began when it is due. ARGV[9]: number of offers, then for each its topic, of how many jobs, and 1 where
-- it is also for such, else 0. Then the topics that are paused: their jobs do not expire.
-- Returns: µs now | µs of the next entry that is not due, or -1 where there is none; where another replica watches for it the
-- moment to look whether that did | how many more are due already | {topic, …} with new ready jobs |
-- {value of tries, …} of the flights that ended | {id, value of tries, record, body, …} of the jobs that are dead now |
-- number of ids without a record, which were dropped | µs that the bucket is ahead of Redis's clock |
-- {id, value of tries, record, body where it is kept beside the record, …} of the jobs that are leased | the watch that the
-- caller keeps from now on, 0 for none | {ms when it is due, and the same as above, …} of those that are leased and not due.
call('ZREM', running, '')
local us, ahead, watch
us, ahead, serial, watch = now('later')
time = us
local limit = tonumber(ARGV[3])
local ms, lease_ms, soon = math.floor(us / 1000), tonumber(ARGV[5]), tonumber(ARGV[8])
owner, deadline, room = ARGV[4], int(math.ceil(us / 1000) + lease_ms), tonumber(ARGV[6])
local ready, ended, died, orphans, leased = {}, {}, {}, 0, {}

-- offers says of how many jobs of a topic a lease is wanted, patient whether also of such as are not due yet.
local offers, patient, paused, groups, at = {}, {}, {}, {}, 10
for _ = 1, tonumber(ARGV[9]) do
  local topic = ARGV[at]
  offers[topic], patient[topic], at = tonumber(ARGV[at + 1]), ARGV[at + 2] == '1', at + 3
end
for i = at, #ARGV do paused[ARGV[i]] = true end

local function records_of(ids)
  if #ids == 0 then return {} end
  return call('HMGET', pool, unpack(ids))
end

-- due are the ids that are due, and soon after them those that will be within soon ms, with when that is.
local due, moments, backlog = {}, {}, false
if soon == 0 then
  due = call('ZRANGEBYSCORE', bucket, '-inf', int(ms), 'LIMIT', 0, limit)
  backlog = #due == limit
else
  local found = call('ZRANGEBYSCORE', bucket, '-inf', int(ms + soon), 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #found, 2 do
    due[#due + 1] = found[i]
    local moment = tonumber(found[i + 1])
    if moment > ms then moments[#due] = moment end
  end
  backlog = #due == limit and not moments[limit]
end
if backlog then
  -- A backlog: what became due just now does not wait behind all of it.
  local before = {}
  for _, id in ipairs(due) do before[id] = true end
  local fresh = call('ZRANGEBYSCORE', bucket, int(ms - 5000), int(ms), 'LIMIT', 0, limit / 4)
  for _, id in ipairs(fresh) do
    if not before[id] then due[#due + 1] = id end
  end
end
-- bury notes a job that is dead now.
local function bury(id, t, record)
  for _, part in ipairs({ id, format_try(t), record, body_of(id, record) }) do died[#died + 1] = part end
end

-- wanted reports whether a job of a topic is leased at once: it is offered, and nothing is ready before it. moment is when
-- it is due, where that is yet to come.
local function wanted(topic, moment)
  local n = offers[topic]
  if not n or n == 0 or room <= 0 or groups[topic] or moment and not patient[topic] then return false end
  if not leased[topic] and call('EXISTS', lists .. topic) == 1 then
    offers[topic] = nil
    return false
  end
  offers[topic], leased[topic] = n - 1, (leased[topic] or 0) + 1
  return true
end

local tried = next(offers) and #due > 0 and call('HMGET', tries, unpack(due)) or {}
local out, early, moved = {}, {}, {}
for i, record in ipairs(records_of(due)) do
  local id, moment, topic, flags, push = due[i], moments[i], nil, nil, nil
  if record then
    flags, topic, push = record:match('^1(o?e?) (%S+) (%d+) ')
    topic = topic or record:match('^%S+ (%S+)')
  end
  local may_expire = push and flags ~= '' and flags:find('e')
  local t = may_expire and not moment and not paused[topic] and expired(record, us / 1000) and
    (parse_try(call('HGET', tries, id)) or first_try(push, topic))
  moved[#moved + 1] = id
  if t and t.n == t.base then
    t.reason = 'expired'
    land(id, t, 'd', nil, us)
    bury(id, t, record)
  elseif push and not may_expire and wanted(topic, moment) then
    t = tried[i] and parse_try(tried[i])
    if t and t.push ~= push then t = nil end
    if moment then
      deadline, early[#early + 1] = int(moment + lease_ms), int(moment)
    end
    lease(id, push, topic, t, record, flags ~= '' and flags:find('o'), moment and early or out)
  elseif moment then
    moved[#moved] = nil -- it stays until it is due
  elseif topic then
    groups[topic] = groups[topic] or {}
    table.insert(groups[topic], id)
  elseif record then
    call('ZADD', dead, int(us / 1000), id)
  else
    orphans = orphans + 1
  end
end
commit_leases()
for topic, n in pairs(leased) do
  count('d', topic, -n)
  count('i', topic, n)
end
for topic, ids in pairs(groups) do
  enlist('RPUSH', topic, ids, us)
  count('d', topic, -#ids)
  count('r', topic, #ids)
  ready[#ready + 1] = topic
end
if #moved > 0 then call('ZREM', bucket, unpack(moved)) end

-- first_of gives the µs of the first entry of a set, or -1.
local function first_of(set)
  local score = call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
  return score and tonumber(score) * 1000 or -1
end

local deadline_next, late = first_of(running), {}
if deadline_next >= 0 and deadline_next <= us then
  late = call('ZRANGEBYSCORE', running, '-inf', int(ms), 'LIMIT', 0, limit)
  deadline_next = nil -- known once they are gone
end
local records = records_of(late)
local values = #late > 0 and call('HMGET', tries, unpack(late)) or {}
for i, id in ipairs(late) do
  local t = parse_try(values[i])
  if not records[i] or not t then
    if records[i] then
      local topic = records[i]:match('^%S+ (%S+) ')
      if topic then enlist('RPUSH', topic, { id }, us) end
    else
      orphans = orphans + 1
    end
    call('ZREM', running, id)
  else
    ended[#ended + 1] = values[i]
    local pause = 0
    if t.phase == 'c' then
      t.phase = 't'
      pause = pause_after(records[i], t.n - t.base)
      if not pause then t.reason = 'max_attempts' end
    else
      t.phase = 'v'
    end
    land(id, t, 'i', pause, us)
    if pause == 0 then ready[#ready + 1] = t.topic end
    if not pause then bury(id, t, records[i]) end
  end
end

commit_counts()
-- Where more is due already, the next entry is the first that is not.
local more, keeps, following = backlog and call('ZCOUNT', bucket, '-inf', int(ms)) or 0, 0
if #late == limit then more = math.max(more, 1) end
if more > 0 then
  following = call('ZRANGEBYSCORE', bucket, '(' .. int(ms), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  following = following and tonumber(following) * 1000 or -1
else
  deadline_next, following = deadline_next or first_of(running), first_of(bucket)
  if following < 0 or deadline_next >= 0 and deadline_next < following then following = deadline_next end
  if following >= 0 and following - us <= watch_ahead then
    local kept = tonumber(ARGV[7])
    if kept == -2 then
      following = -1
    elseif kept >= 0 and kept ~= watch and keeps_watch(watch, us, following) then
      following = watch + watch_grace
    else
      keeps = following
    end
  end
end
if keeps ~= 0 and watch ~= keeps then
  call('HSET', clock, 'now', int(us), 'watch', int(keeps))
elseif not next(leased) then
  call('HSET', clock, 'now', int(us))
end
return { us, following, more, ready, ended, died, orphans, ahead, out, keeps, early }
