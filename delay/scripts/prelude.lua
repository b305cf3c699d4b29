-- prelude: what every script of a bucket begins with; keys.go says what the keys hold.
-- KEYS[1..9]: the bucket's keys in the order of bucketKeys.fixed.
-- ARGV[1]: prefix of the bucket's topic lists. ARGV[2]: ms added to the clock (tests move time by it).
local pool, bodies, bucket, running = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local tries, dead, topics, active, clock = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local lists, shift = ARGV[1], tonumber(ARGV[2])

local call = redis.call

-- int writes a number of up to 2^53 without its fraction; '..' would round it to 14 digits.
local function int(x) return string.format('%d', x) end

-- count notes a change of the number of jobs of a topic in a state (d, r, i, x); commit_counts writes all notes.
local delta = {}
local function count(state, topic, n)
  local of = delta[state] or {}
  delta[state], of[topic] = of, (of[topic] or 0) + n
end
local function commit_counts()
  for state, of in pairs(delta) do
    for topic, n in pairs(of) do
      local field = state .. ':' .. topic
      if n ~= 0 and call('HINCRBY', topics, field, n) == 0 then call('HDEL', topics, field) end
    end
  end
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

-- remove takes all traces of ids but those in the sets of their states.
local function remove(ids)
  if #ids == 0 then return end
  call('HDEL', pool, unpack(ids))
  if call('EXISTS', bodies) == 1 then call('HDEL', bodies, unpack(ids)) end
  call('HDEL', tries, unpack(ids))
end
