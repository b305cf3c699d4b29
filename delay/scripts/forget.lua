-- forget drops the marks of stream messages that the stream will not send again.
-- KEYS[1]: zset of marks by sequence. ARGV[1]: the last sequence that is settled. ARGV[2]: at most so many.
-- Returns how many were dropped.
local seen, last, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
local n = math.min(redis.call('ZCOUNT', seen, '-inf', last), most)
if n > 0 then redis.call('ZREMRANGEBYRANK', seen, 0, n - 1) end
return n
