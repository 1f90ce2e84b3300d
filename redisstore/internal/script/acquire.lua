-- acquire.lua tries once to begin a tenure of each of n locks, for one agent.
--
-- KEYS[i]     lock i: a hash with one field, the tenure that has the lock. Its value is as in kinds.lua
-- KEYS[n+i]   the notes of lock i: a zset of withdrawn tenures, and of "yield": the store keeps the lock for
--             outsiders until the time in the score. foreign.lua has its own notes
-- KEYS[2n+1]  the clock: a zset of one member, the name of the incarnation. The name ends with
--             " +" if the clock is ahead of the server's. The score is the greatest time or
--             token that the scripts have given out
-- ARGV[1]     the greatest time that the agent knows, or 0. Or the greatest floor of the locks if
--             that is above; it then begins with "+", or with "+0" if all floors are exact
-- ARGV[2]     the incarnation that the agent knows, or "-" in a Cluster
-- Then for each lock
--   the tenure, "<agent>:<number>"
--   the lease in ms
--   "single" or "sharded" if the tenure asks for a place in the queue: how messages travel, see
--   release.lua. "unqueued" if the tenure waits, and its agent has no queues: it is an outsider to agents that have.
--   Otherwise "". If the tenure asks to be one that may rest, it is how messages travel, "+rests", and "+place" if it asks for a
--   place, too. If it is "" for all locks, this argument is left out
--
-- Reply: lines of text. The first line is
--   <at>                                    if the short way was enough: no lock and no notes were
--                                           there, and the member of the clock is ARGV[2]
--   <at> <incarnation or node id> <ahead>   otherwise
-- A lock without another line was granted, with <at> as its first token. The other lines begin
-- with the i of a lock:
--   i g <token> <outsiders>         granted
--   i r <token> <outsiders>         the same, and the tenure may rest
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
-- error reply means that nothing was changed. It begins with "FAR" if a floor is more than a day
-- ahead of the clock, and with "TOKENS" if the clock is spoilt or at its end.

-- What is seldom needed comes late: to make a function or a table, or to format a number, costs
-- about as much as a command.
--include request.lua

local held_as = redis.held_as or '2' -- see kinds.lua

-- Usually no lock is there and no note, and the clock has moved on.
local quiet = (n == 1 and call('EXISTS', keys[1], keys[2]) or call('EXISTS', unpack(keys, 1, 2 * n))) == 0
--include quick.lua
--include still.lua
local moving = not quiet and args[2] == '-' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

--include tokens.lua

--include holders.lua
--include foreign.lua

local message_kind = ''

--include grants.lua

--include room.lua

--include place.lua

-- Returns the value of the field of a tenure that is about to be granted the lock, and asks to be one that may rest. It is nil if others
-- want the lock: then it may not.
local function rest_of(tenure, suffix, outsiders)
  local places = outsiders == 0 and is_agent(tenure) and pcall('ZRANGE', 'lockagent_queue' .. suffix, 0, 1)
  return places and not places.err and (places[1] or tenure) == tenure and not places[2] and '1' .. held_as or nil
end

-- Returns within how many ms a tenure with a place has to ask again, if no agent has the lock. Nothing may tell when it
-- is free again. The first in the queue asks for all. polls is the score of the note. The result is nil if the tenure
-- need not ask.
local ask_every = '1000' -- in ms
local function unless_told(tenure, suffix, polls)
  if pcall('ZRANGE', 'lockagent_queue' .. suffix, 0, 0)[1] == tenure then
    return polls and math.abs(clock - polls) < soon_after and look_soon or ask_every
  end
end

-- Tries one lock, and returns what there is to say about it.
local function try(i)
  local a, lock = per * (i - 1) + 2, keys[i]
  local tenure, lease, asks = args[a + 1], args[a + 2], per == 3 and args[a + 3] or ''
  local rests = string.find(asks, '+rests', 1, true)
  asks = rests and not string.find(asks, '+place', 1, true) and '' or asks
  local suffix, unqueued = string.sub(keys[n + i], 16), asks == 'unqueued'
  asks = unqueued and '' or asks
--include met.lua
  local outsiders = (asks ~= '' or rests) and outsiders_of('redisson_lock__channel' .. string.gsub(suffix, '^::', ':'), suffix) or 0
  if not holder then
    left = math.max((unqueued or asks ~= '' and outsiders == 0) and 0 or kept_for(notes[2], 50), kept_for(notes[3], turn_lasts / 1000))
  end
  if own or not holder and left <= 0 then
    local theirs
    if (asks ~= '' or rests) and outsiders == 0 then
      outsiders = pcall('EXISTS', 'lockagent_turn' .. suffix) == 1 and 1 or 0 -- one that had its turn lately comes back
    end
    if not own and notes[4] and outsiders == 0 then
      theirs = foreign_turn(suffix, asks ~= '')
    end
    if not theirs then
      if own then -- others may have met the tenure as it is
        count = may_rest(tenure, count) and count
      else
        count = rests and not notes[4] and rest_of(tenure, suffix, outsiders)
      end
      grant(lock, tenure, lease, own and left or -2, own, count)
      if asks ~= '' then
        pcall('ZREM', 'lockagent_queue' .. suffix, tenure)
      end
      local code = rests and count == '1' .. held_as and 'r ' or 'g '
      return (code == 'r ' or outsiders > 0 or token ~= first) and code .. token .. ' ' .. outsiders
    end
    left, notes[3] = theirs / 1000, first + theirs
  end
  local recalls = holder and may_rest(holder, count)
  local ours = (asks ~= '' or recalls) and want(lock, tenure, holder)
  local queued = asks ~= '' and place(tenure, 'lockagent_queue' .. suffix, suffix)
  -- An agent with an identity of the application's choice is known by its count, or because it listens.
  if holder and not ours and not is_agent(holder) and (asks ~= '' or count ~= held_as) then
    met_foreign(suffix)
  end
  local within
  if queued and not ours and (holder or turn_left(notes[3])) then
    within = unless_told(tenure, suffix, notes[3])
  end
  local code = within and 'k' or queued and 'q' or 'h'
  code = (recalls and string.upper(code) or code) .. (within and ' ' .. within or '')
  return code .. ' ' .. left .. ' ' .. outsiders .. ' ' .. (holder or '')
end

--include answer.lua
