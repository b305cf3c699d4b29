-- plain: in front of push, for the call that there is most of where few jobs come at a time: one new job, without anything
-- unusual, that is due in so long that nobody need promise to look for it yet (the watch in clock.lua). It does what push
-- does, before anything is made that push needs; for all else it does nothing, and push goes on.
-- ARGV and what is returned are those of push.
do
  local call, delay, flags = redis.call, tonumber(ARGV[6]), ARGV[7]
  if #ARGV == 9 and #KEYS == 9 and (flags == '' or flags == 'g') and ARGV[6]:byte() == 43 and delay > 1001 and delay <= tonumber(ARGV[3]) then
    local int = '%d'
    local t, kept = call('TIME'), call('HMGET', KEYS[9], 'now', 'seq')
    local us = t[1] * 1000000 + t[2] + ARGV[2] * 1000
    if us >= tonumber(kept[1] or 0) and not call('HGET', KEYS[1], ARGV[8]) then
      local pushed, push = math.ceil(us / 1000), int:format(tonumber(kept[2] or 0) + 1)
      local due, topic = int:format(pushed + delay), ARGV[5]
      call('HSET', KEYS[9], 'now', int:format(us), 'seq', push)
      call('HSET', KEYS[1], ARGV[8], '1 ' .. topic .. ' ' .. push .. ' ' .. int:format(pushed) .. ' ' .. due .. ' ' .. ARGV[9])
      call('ZADD', KEYS[3], due, ARGV[8])
      call('HINCRBY', KEYS[7], 'd:' .. topic, 1)
      return { us, pushed + delay, 0 }
    end
  end
end
