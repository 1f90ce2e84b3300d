-- acquire.lua tries once to begin a tenure of each of n locks, for one agent.
--
-- KEYS[i]     lock i: a hash with one field, the tenure that has the lock. Its value is as in kinds.lua
-- KEYS[n+i]   the notes of lock i: a zset of withdrawn tenures, and of "yield": the store keeps the lock for
--             outsiders until the time in the score. turns.lua has its own notes
-- KEYS[2n+1]  the clock: a zset of one member, the name of the incarnation. The name ends with
--             " +" if the clock is ahead of the server's. The score is the greatest time or
--             token that the scripts have given out
-- ARGV[1]     the greatest time that the agent knows, or 0. Or the greatest floor of the locks if
--             that is above; it then begins with "+", or with "+0" if all floors are exact
-- ARGV[2]     the incarnation that the agent knows, or "?" and what names of the node end with, see clock.lua. It is
--             "-" where several servers are behind one address
-- Then for each lock
--   the tenure, "<agent>:<number>"
--   the lease in ms
--   "single" or "sharded" if the tenure asks for a place in the queue: how messages travel, see
--   release.lua. "unqueued" if the tenure waits, and its agent has no queues: it is an outsider to agents that have.
--   Otherwise "". If the tenure asks to be one that may rest, it is how messages travel, "+rests", and "+place" if it
--   asks for a place, too. If it is "" for all locks, this argument is left out
--
-- Reply: lines of text. The first line is
--   <at>                                    if the short way was enough: no lock and no notes were
--                                           there, and the member of the clock is ARGV[2]
--   <at> <incarnation or node id> <ahead>   otherwise
-- A lock without another line was granted, with <at> as its first token. The other lines begin
-- with the i of a lock:
--   i g <token> <outsiders>         granted
--   i G <token> <outsiders>         the same, and an agent waits that cannot have the lock meanwhile. Only if the
--                                   tenure asks for a place
--   i r <token> <outsiders>         granted, and the tenure may rest
--   i h <ms> <outsiders> <holder>   held; <ms> of the lease are left, or -1 if it has no end
--   i q <ms> <outsiders> <holder>   held, and the tenure has a place in the queue
--   i k <within> <ms> <outsiders> <holder>   the same, and nothing may tell of the release: the
--                                   tenure asks again within so many ms
--   i H, i Q or i K                 as h, q and k, and the holder may rest. Its agent was told that the lock is wanted
--   i w                             the tenure was withdrawn
--   i e <text>                      an error
-- <holder> is empty while the store keeps the lock for outsiders. <outsiders> is 0 if the tenure
-- does not ask for a place. For example, of two locks the first was granted and the second is held:
--   1700000000000000 1690000000000000.5f3a 0
--   2 h 1500 0 <agent>:7
--
-- A lock that is not granted is not changed. An error of one lock does not affect the others. An
-- error reply means that no lock was changed. It begins with "FAR" if a floor is more than a day
-- ahead of the clock, with "TOKENS" if the clock is spoilt or at its end, and with "GRACE" or "LOOK" as in advance.lua.

-- What is seldom needed comes late: to make a function or a table, or to format a number, costs
-- about as much as a command.
--include request.lua

-- Usually no lock is there and no note, and the clock has moved on.
local held_as = '2' -- see kinds.lua
local quiet = (n == 1 and call('EXISTS', keys[1], keys[2]) or call('EXISTS', unpack(keys, 1, 2 * n))) == 0
--include quick.lua

--include still.lua
local moving = not raised and keys[2 * n + 1] ~= 'lockagent_clock' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

--include advance.lua
local time, reply = clock_advance(keys[2 * n + 1], args[1], args[2], seen, raised and at)
if not time then
  return reply
end

--include exclusive.lua

--include answer.lua

local first = clock_shows(time)
return answer(reply, n, rest, function(i)
  local a = per * (i - 1) + 2
  local asks = per == 3 and args[a + 3] or ''
  local lock = tenure_lock(keys[i], string.sub(keys[n + i], 16), string.match(asks, '^%a+'), '', held_as)
  return exclusive_try(lock, time, first, args[a + 1], args[a + 2], asks)
end)
