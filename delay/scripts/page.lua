-- page reads on in one of the sets by score, from behind an entry.
-- ARGV[3]: 'delayed', 'inflight' or 'dead'. ARGV[4], ARGV[5]: score and member of the last entry read ('-inf', '').
-- ARGV[6]: entries to look at. ARGV[7]: the topic that is wanted, '' any.
-- Returns µs now | 1 where the set ends here | score and member of the last entry looked at | {id, state, score, value of
-- tries, record without its body, '', …}.
local us = now()
local set = ({ delayed = bucket, inflight = running, dead = dead })[ARGV[3]]
local score, member, limit, wanted = ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7]

-- after gives the rank of the first entry behind (score, member): entries of one score are in order of their members.
local function after()
  if score == '-inf' then return 0 end
  local low, high = call('ZCOUNT', set, '-inf', '(' .. score), call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if call('ZRANGE', set, middle, middle)[1] > member then high = middle else low = middle + 1 end
  end
  return low
end

-- without_body cuts a record behind its headers.
local function without_body(record)
  local line = record:find('\n', 1, true) or #record
  local headers = record:sub(1, line):match(' h(%d+)')
  return record:sub(1, line + tonumber(headers or 0))
end

local start = after()
local found = call('ZRANGE', set, start, start + limit - 1, 'WITHSCORES')
local ids, rows = {}, {}
for i = 1, #found, 2 do ids[#ids + 1] = found[i] end
if #ids > 0 then
  local records, values = call('HMGET', pool, unpack(ids)), call('HMGET', tries, unpack(ids))
  for i, id in ipairs(ids) do
    score, member = found[i * 2], id
    local topic = records[i] and records[i]:match('^%S+ (%S+)')
    if topic and (wanted == '' or topic == wanted) then
      for _, part in ipairs({ id, ARGV[3], tonumber(score), values[i] or '', without_body(records[i]), '' }) do
        rows[#rows + 1] = part
      end
    end
  end
end
return { us, #ids < limit and 1 or 0, score, member, rows }
