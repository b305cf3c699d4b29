-- clock: the bucket's time, its counter and its watch.

-- behind gives the bucket's time where Redis's clock, us, is behind the last time given, and by how much it is ahead.
-- After a step of over a second (another server, a clock put right) it runs on from the last time, a 64th slower, until
-- Redis's clock has caught up. The field step of clock: that last time, and Redis's clock then.
local function behind(us, last)
  local from, since = (call('HGET', clock, 'step') or ''):match('^(%d+) (-?%d+)$')
  local slow = from and tonumber(from) + math.floor((us - tonumber(since)) * 63 / 64) or 0
  if slow >= last then return slow, slow - us end
  if last - us <= 1000000 then return last, 0 end
  call('HSET', clock, 'step', int(last) .. ' ' .. int(us))
  return last, last - us
end

-- now gives the bucket's time, µs since 1970: Redis's clock, but never less than the last time given; by how many µs it
-- is ahead of that clock; the bucket's counter of pushes and deliveries, from which it takes so many numbers; and its watch.
-- With take 'later' the caller writes the time.
local function now(take)
  local t = call('TIME')
  local us, ahead = t[1] * 1000000 + t[2] + shift * 1000, 0
  local kept = call('HMGET', clock, 'now', 'seq', 'watch')
  local last, number = tonumber(kept[1] or 0), tonumber(kept[2] or 0)
  if us < last then us, ahead = behind(us, last) end
  if take == 'later' then
    return us, ahead, number, tonumber(kept[3] or 0)
  elseif take then
    call('HSET', clock, 'now', int(us), 'seq', int(number + take))
  elseif us - last >= 1000 then
    call('HSET', clock, 'now', int(us))
  end
  return us, ahead, number, tonumber(kept[3] or 0)
end

-- A bucket's watch is the moment, µs, at which one of its replicas has promised to look for what is due, 0 or in the past
-- where none has: so not all of them wake up for each job. It is never more than a second ahead, and the others look a little
-- later whether it was kept, so a replica that dies does not take its promise with it.
local watch_ahead, watch_grace = 1000000, 400000

-- keeps_watch reports whether somebody looks at a moment or before it.
local function keeps_watch(watch, us, moment) return watch > us and watch <= moment end
