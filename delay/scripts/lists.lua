-- lists: what is ready.

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
