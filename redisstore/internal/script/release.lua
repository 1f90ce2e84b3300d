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
local time = call('TIME')
local clock = time[1] * 1000000 + time[2]
local n = (#keys - 1) / 2
local quiet = (n == 1 and call('EXISTS', keys[2], keys[3]) or call('EXISTS', unpack(keys, n + 1))) == 0
local ahead, turns = '0', nil
if not quiet then
--include still.lua
  local moving = args[1] ~= 'single' and moves(keys[1], keys[2 * n + 1])
  if moving then
    return moving
  end
  local names = {keys[2 * n + 1]}
  for i = 1, n do
    local suffix = string.sub(keys[n + i], 16)
    names[i + 1] = 'lockagent_turn' .. suffix
  end
  turns = pcall('MGET', unpack(names)) -- what is no string is read as if it were not there
  local text = turns[1] or ''
  if string.find(text, '^%d+$') and clock + text <= 9007199254740991 then -- acquires tell if it is spoilt
    ahead, clock = text, clock + text
  end
end

-- First everything is undone that the tenures have.
local room, per = args[1], #args == 2 + 2 * n and 2 or 3
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
--include last.lua
if not rest then
  return clock
end

--include ways.lua

local places_looked_at, standbys = 8, 2
local yield, most_yield = 5000, 50000 -- in microseconds
local turn_every = 250 -- in ms

--include holders.lua
--include foreign.lua

--include turn.lua

local held_as = redis.held_as or '2' -- see kinds.lua
--include begin.lua

-- Passes a lock to a tenure that waits, and reports whether its agent was told. It does not do so
-- if the clock was set back, for an acquire has to set it right, nor if another program has put
-- something under the same key. The tenure then keeps its place.
local function pass(lock, tenure, queue, channel, outsiders, trace)
  local times, incarnation = begin(keys[2 * n + 1], ahead, lock, tenure)
  if not times then
    return false
  end
  call('ZREM', queue, tenure)
  local heard = pcall(publish, channel, 'passed ' .. tenure .. ' ' .. times .. ' ' .. outsiders .. ' ' ..
    incarnation .. ' ' .. trace .. ' ' .. lock)
  if type(heard) == 'number' and heard > 0 then
    return true
  end
  call('HDEL', lock, tenure)
  return false
end

-- Passes a lock that is free, or wakes all waiters. others is how many agents were woken already.
-- If others is nil, there may be a queue.
local function hand_on(i, lock, tenure, channel, queue, flags, others, suffix)
  local subscribed = string.find(flags, 's', 1, true) and 1 or 0
  local front = not others and room ~= 'unqueued' and pcall('ZRANGE', queue, 0, places_looked_at + standbys - 1) or {}
  local names = {channel, 'lockagent_agents' .. suffix}
  for p, place in ipairs(front) do
    names[p + 2] = channel_of(string.match(place, '^(.*):'), suffix)
  end
  local outsiders, theirs, polls = nil, false, nil
  if front[1] then
    local counts = listeners(names)
    outsiders = outsiders_among(counts)
    local hurry -- an outsider that had its turn lately is about to subscribe again
    theirs, hurry = turn(i, queue, suffix, outsiders)
    polls = outsiders == 0 and foreign_turn(suffix, true)
    if not theirs and not polls then
      local head = 1
      while counts[2 * head + 4] == 0 and head < #front and head < places_looked_at do
        head = head + 1
      end
      local listens = counts[2 * head + 4] > 0
      local gone = listens and head - 1 or head
      if gone > 0 then
        call('ZREM', queue, unpack(front, 1, gone))
      end
      if listens and pass(lock, front[head], queue, names[head + 2], hurry, string.match(flags, 't(.+)') or '-') then
        for next = head + 1, math.min(head + standbys, #front) do
          pcall(publish, names[next + 2], 'standby ' .. front[next] .. ' ' .. pass_lease .. ' ' .. lock)
        end
        return 'p'
      end
    end
  end

  others = others or pcall(publish, channel, '0')
  local known = type(others) == 'number' -- the user may publish there
  if not outsiders and room ~= 'unqueued' and known and others > subscribed then
    outsiders = outsiders_of(channel, suffix)
  end
  if theirs or outsiders and outsiders > 0 then
    -- A tenure lasts 5 ms while there are outsiders. They get as much as all agents together, and once more.
    local agents = theirs and call('ZCARD', queue) + 1 or 1
    note(suffix, clock + math.min(most_yield, (agents + 1) * yield), 'yield')
    pcall('SET', 'lockagent_turn' .. suffix, '0', 'PX', turn_every)
  end
  if room == 'unqueued' or known and others <= subscribed then
    return nil
  end
  return 'r ' .. (known and others - subscribed or -1)
end

local own = #'lockagent_queue'
local function freed(i, a, flags, suffix)
  return hand_on(i, keys[i], args[a + 1], args[a + 2], keys[n + i], flags, woken[i], suffix)
end

--include released.lua
