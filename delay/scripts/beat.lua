-- beat keeps a replica's slot, or takes the lowest free one: one that nobody has, that was left, or that is stale.
-- KEYS[1]: dq:meta:replicas. ARGV: ms added to the clock, process, ms until a slot is stale, slots whose acks this replica
-- takes too ('1,4' or '-'), what it says of itself, 1 where it leaves.
-- Returns its slot, then for each slot {number, process, ms since its beat, 1 where it leaves, slots it covers, what it says}.
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000) + tonumber(ARGV[1])
local process, stale, covers, about, leaves = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]

local slots, mine = {}, nil
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local owner, beat, left, covered, said = all[i + 1]:match('^(%S+) (%d+) (%d) (%S+) (.*)$')
  if tonumber(beat or 0) > ms + 1000 then -- Redis's clock went back: the slot ages from now on
    beat = string.format('%.0f', ms)
    redis.call('HSET', KEYS[1], all[i], table.concat({ owner, beat, left, covered, said }, ' '))
  end
  local slot = { number = tonumber(all[i]), process = owner or '?', age = ms - tonumber(beat or 0), left = left or '1',
    covers = covered or '-', about = said or '' }
  if slot.process == process then mine = slot.number end
  slots[slot.number] = slot
end
if not mine then
  mine = 0
  while slots[mine] and slots[mine].left == '0' and slots[mine].age < stale do mine = mine + 1 end
end
redis.call('HSET', KEYS[1], mine, string.format('%s %.0f %s %s %s', process, ms, leaves, covers, about))
slots[mine] = { number = mine, process = process, age = 0, left = leaves, covers = covers, about = about }

local replies = { mine }
for _, s in pairs(slots) do
  replies[#replies + 1] = { s.number, s.process, s.age, s.left, s.covers, s.about }
end
return replies
