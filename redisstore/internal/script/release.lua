-- release.lua ends a tenure of each of n locks, or withdraws a tenure that has not begun, for one
-- agent.
--
-- KEYS[i]     lock i: a hash with one field, the tenure that has the lock
-- KEYS[n+i]   the queue of lock i: a zset of the waiting tenures, by their time of arrival
-- KEYS[2n+1]  ahead: how many microseconds the clock is ahead of the server's
-- ARGV[1]     how messages travel: "single" server, "sharded" in a Cluster, or "unqueued" to all nodes, if nobody can
--             count who listens
-- ARGV[2]     the greatest token of the tenures, or 0 if the clock is known to have reached it
-- Then for each lock
--   the tenure, "<agent>:<number>"
--   the lock's channel
--   flags: "s" if the agent subscribes to the channel, "u" if an Acquire of the tenure is
--   unanswered, and "t" and the trace context of the release if it is traced. If no lock has
--   flags, this argument is left out for all locks
--
-- Reply: lines of text. The first line is <at>. If it is the only line, the reply may be an integer. A
-- lock without another line was released. Its release woke no other agent, or nobody can tell how
-- many. The other lines begin with the i of a lock:
--   i r <others>  released; the number of other agents that were woken, or -1 if it is not known
--   i p           released, and passed to a tenure in the queue
--   i n           the tenure did not have the lock
--   i e <text>    an error
-- An error of one lock does not affect the others. An error reply means that nothing was changed.
--
-- A release passes the lock to the first tenure in the queue whose agent listens. It sends to the
-- agent of that tenure, and to the agents of the next two tenures,
--   passed <tenure> <token> <at> <clock> <outsiders> <incarnation or -> <trace or -> <lock>
--   standby <tenure> <ms> <lock>

-- What is seldom needed comes late, see acquire.lua.
local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local seen = call('TIME')
local n = (#keys - 1) / 2
local per = #args == 2 + 2 * n and 2 or 3
local kind, held_as, fenced = '', '2', nil -- see exclusive_release.lua
local quiet = (n == 1 and call('EXISTS', keys[2], keys[3]) or call('EXISTS', unpack(keys, n + 1))) == 0

--include exclusive_release.lua
