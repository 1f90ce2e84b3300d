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
--   unanswered, "n" if moreover no token of the tenure is given, and "t" and the trace context of the
--   release if it is traced. If no lock has flags, this argument is left out for all locks
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
--   passed+ and the same if an agent waits that cannot have the lock while this tenure has it
--   standby <tenure> <ms> <lock>

-- What is seldom needed comes late, see acquire.lua.
local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local seen = call('TIME')
local n = (#keys - 1) / 2
local per = #args == 2 + 2 * n and 2 or 3
local room = args[1]
local quiet = (n == 1 and call('EXISTS', keys[2], keys[3]) or call('EXISTS', unpack(keys, n + 1))) == 0
if not quiet then
--include still.lua
  local moving = room ~= 'single' and moves(keys[1], keys[2 * n + 1])
  if moving then
    return moving
  end
end

-- First everything is undone that the tenures have.
local rest, removed, woken
for i = 1, n do
  local a = per * (i - 1) + 2
  local undone, others = pcall('HDEL', keys[i], args[a + 1]), nil
  if not quiet then
    pcall('ZREM', keys[n + i], args[a + 1])
  elseif undone == 1 then
    others = pcall(room == 'sharded' and 'SPUBLISH' or 'PUBLISH', args[a + 2], '0')
  end
  local unanswered = per == 3 and string.find(args[a + 3], 'u', 1, true)
  if undone ~= 1 or not quiet or others ~= 0 and room ~= 'unqueued' or unanswered then
    if type(undone) == 'table' and string.find(undone.err, 'READONLY', 1, true) then
      return undone -- a replica: nothing was done, and another server can do it
    end
    if not rest then
      rest, removed, woken = {}, {}, {}
    end
    rest[#rest + 1], removed[i], woken[i] = i, undone, others
  end
end
if not rest and args[2] == '0' then
  return seen[1] * 1000000 + seen[2]
end

--include exclusive_release.lua

--include answer.lua

local time = clock_read('lockagent_clock' .. string.sub(keys[2 * n + 1], 16), seen)
clock_raise(time, args[2] + 0)
if not rest then
  return time.now
end
return answer(clock_shows(time), n, rest, function(i)
  local a = per * (i - 1) + 2
  local lock = tenure_lock(keys[i], string.sub(keys[n + i], 16), room, '', '2')
  return exclusive_end(lock, time, args[a + 1], per == 3 and args[a + 3] or '', removed[i], woken[i])
end)
