-- return gives leases back, since nobody listened: the jobs are ready again, at the head of their list, no attempt counts.
-- ARGV[3…]: for each job id, token.
-- Returns for each job 1, or 0 where its lease is over, confirmed or settled.
return take_back(function(t) return t.phase == 'l' end)
