-- get reads jobs.
-- ARGV[3…]: ids.
-- Returns µs now, then for each id {} or {id, state, score, value of tries or '', record, body beside it or ''}.
local replies = { (now()) }
for i = 3, #ARGV do
  local id = ARGV[i]
  local record = call('HGET', pool, id)
  if not record then
    replies[#replies + 1] = {}
  else
    local state, score = state_of(id)
    replies[#replies + 1] = { id, state, tonumber(score), call('HGET', tries, id) or '', record, body_of(id, record) }
  end
end
return replies
