-- acquire.lua tries once to begin a tenure of each of n locks, for one agent.
--
-- KEYS[i]     lock i: a hash with one field, the tenure that has the lock
-- KEYS[n+i]   the notes of lock i: a zset of withdrawn tenures, and of "yield": the store keeps
--             the lock for outsiders until the time in its score
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
--   release.lua. Otherwise "". If no tenure asks, this argument is left out for all locks
--
-- Alone: where keys cannot travel together, the script runs for one lock. KEYS[1] is the lock, and
-- the only key. All three arguments follow, and then the names of KEYS[2] and KEYS[3]. The script
-- then reads these keys as far as it can reach them, and does not write them. The clock of the
-- server may be a little behind what the agent knows. Then a free lock is held, without a holder,
-- until the clock has caught up. So no other agent gets a smaller token later.
--
-- Reply: lines of text. The first line is
--   <at>                                    if the short way was enough: no lock and no notes were
--                                           there, and the member of the clock is ARGV[2]
--   <at> <incarnation or node id> <ahead>   otherwise
-- A lock without another line was granted, with <at> as its first token. The other lines begin
-- with the i of a lock:
--   i g <token> <outsiders>         granted
--   i h <ms> <outsiders> <holder>   held; <ms> of the lease are left, or -1 if it has no end
--   i q <ms> <outsiders> <holder>   held, and the tenure has a place in the queue
--   i w                             the tenure was withdrawn
--   i e <text>                      an error
-- <holder> is empty while the store keeps the lock for outsiders, or until the clock has caught up. <outsiders> is 0 if the tenure
-- does not ask for a place. For example, of two locks the first was granted and the second is held:
--   1700000000000000 1690000000000000.5f3a 0
--   2 h 1500 0 <agent>:7
--
-- A lock that is not granted is not changed. An error of one lock does not affect the others. An
-- error reply means that nothing was changed. It begins with "FAR" if a floor is more than a day
-- ahead of the clock.

-- What is seldom needed comes late: to make a function or a table, or to format a number, costs
-- about as much as a command.
--include request.lua

-- Usually no lock is there and no note, and the clock has moved on.
local quiet = not alone and
  (n == 1 and call('EXISTS', keys[1], keys[2]) or call('EXISTS', unpack(keys, 1, 2 * n))) == 0
--include quick.lua

--include tokens.lua

--include holders.lua

local message_kind = ''

--include grants.lua

--include place.lua

-- Tries one lock, and returns what there is to say about it.
local function try(i)
  local a, lock = per * (i - 1) + 2, keys[i]
  local tenure, lease, asks = args[a + 1], args[a + 2], per == 3 and args[a + 3] or ''
  local suffix = string.sub(keys[n + i], 16)
  local notes = pcall('ZMSCORE', keys[n + i], tenure, 'yield')
  if notes[1] then
    return 'w'
  end
  local left, err, holder, own = call('PTTL', lock), nil, nil, false
  if left ~= -2 then
    local _
    err, holder, _, own = holders(lock, tenure)
    if err then
      return 'e ' .. err
    end
  end
  local outsiders, count = 0, asks == 'sharded' and 'SHARDNUMSUB' or 'NUMSUB'
  if asks ~= '' then
    local channel = 'redisson_lock__channel' .. string.gsub(suffix, '^::', ':')
    local counts = call('PUBSUB', count, channel, 'lockagent_agents' .. suffix)
    outsiders = math.max(0, counts[2] - counts[4])
  end
  if not holder and notes[2] and (asks == '' or outsiders > 0) then
    left = math.ceil((notes[2] - clock) / 1000) -- above 0 while the lock is kept for outsiders
  end
  if behind and not holder then
    left = behind
  elseif own or not holder and (left <= 0 or left > 10) then
    grant(lock, tenure, lease, own and left or -2, own)
    if asks ~= '' and not alone then
      pcall('ZREM', 'lockagent_queue' .. suffix, tenure)
    end
    if asks ~= '' and outsiders == 0 and not alone then
      outsiders = call('EXISTS', 'lockagent_turn' .. suffix) -- one that had its turn lately comes back
    end
    return (outsiders > 0 or token ~= first) and 'g ' .. token .. ' ' .. outsiders
  end
  if asks ~= '' then
    want(lock, tenure, holder)
  end
  local queued = asks ~= '' and not alone and
    place(tenure, 'lockagent_queue' .. suffix, count, asks == 'sharded' and suffix or '')
  return (queued and 'q ' or 'h ') .. left .. ' ' .. outsiders .. ' ' .. (holder or '')
end

--include answer.lua
