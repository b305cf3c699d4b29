-- undo takes back deliveries that were certain and are not: the stream that listened has not taken the message. The jobs
-- are ready again, at the head of their list, and the attempt does not count.
-- ARGV[3…]: for each job id, token.
-- Returns for each job 1, or 0 where that delivery is over or settled.
return take_back(function(t)
  if t.phase == 'c' then t.n = t.n - 1 end
  return t.phase == 'c' or t.phase == 'l'
end)
