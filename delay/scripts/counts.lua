-- counts tells how many jobs a bucket has: whatever is in no set is ready.
-- KEYS: as in prelude.lua. Returns jobs that are delayed | ready | in flight | dead | ms when the first delayed one is due, or -1.
local call = redis.call
local delayed, inflight, dead = call('ZCARD', KEYS[3]), call('ZCARD', KEYS[4]), call('ZCARD', KEYS[6])
local ready = math.max(call('HLEN', KEYS[1]) - delayed - inflight - dead, 0)
local first = call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
return { delayed, ready, inflight, dead, first and tonumber(first) or -1 }
