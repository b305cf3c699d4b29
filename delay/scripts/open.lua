-- open records a store's layout at its first use.
-- KEYS[1]: dq:meta. ARGV: layout version, number of buckets, a random id.
-- Returns the layout version, number of buckets and id that are recorded.
if redis.call('HSETNX', KEYS[1], 'store', ARGV[3]) == 1 then
  redis.call('HSET', KEYS[1], 'layout', ARGV[1], 'buckets', ARGV[2])
end
return redis.call('HMGET', KEYS[1], 'layout', 'buckets', 'store')
