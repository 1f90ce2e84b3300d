-- acquire.lua tries once to begin a tenure of each of n locks, for one agent.
--
-- KEYS[i]     lock i: a hash with one field, the tenure that has the lock
-- KEYS[n+i]   the notes of lock i: a zset of withdrawn tenures, and of "yield" and "polls": the
--             store keeps the lock for outsiders until the time in the score. The score of "taken"
--             is when those that poll were last seen to have it
-- KEYS[2n+1]  the clock: a zset of one member, the name of the incarnation. The name ends with
--             " +" if the clock is ahead of the server's. The score is the greatest time or
--             token that the scripts have given out
-- ARGV[1]     the greatest time that the agent knows, or 0. Or the greatest floor of the locks if
--             that is above; it then begins with "+"
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
--   i h <ms> <outsiders> <holder>   held; <ms> of the lease are left, or -1 if it has no end. Or
--                                   <ms> is less, if nothing may tell of the release
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
local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local at = time[1] .. string.sub('00000' .. time[2], -6)
local n = (#keys - 1) / 2
local alone = n == 0
if alone then
  n, keys = 1, {keys[1], args[6], args[7]}
end
local per = #args == 2 + 2 * n and 2 or 3

-- Usually no lock is there and no note, and the clock has moved on.
local quiet = not alone and
  (n == 1 and call('EXISTS', keys[1], keys[2]) or call('EXISTS', unpack(keys, 1, 2 * n))) == 0
local raised = quiet and args[1] + 0 < at + 0 and pcall('ZADD', keys[2 * n + 1], 'XX', 'GT', 'CH', at, args[2]) == 1
local rest
if raised then
  local seen = n > 1 and {} -- a lock may be among the n twice
  for i = 1, n do
    local a, lock = per * (i - 1) + 2, keys[i]
    if per == 3 and args[a + 3] ~= '' or seen and seen[lock] then
      rest = rest or {}
      rest[#rest + 1] = i
    else
      call('HSET', lock, args[a + 1], '1')
      call('PEXPIRE', lock, args[a + 2])
    end
    if seen then
      seen[lock] = true
    end
  end
  if not rest then
    return at
  end
end

-- The clock never goes back. first is the token of the tenures that begin now.
local day, minute, jitter, greatest_token = 86400e6, 60e6, 100, 9007199254740991
local catch_up = 100000 -- in microseconds
local key, name, clock, first, reply, kept, behind = keys[2 * n + 1], args[2], tonumber(at), at, at, true, nil
if not raised then
  local entry = pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
  local key_ahead = 'lockagent_ahead' .. string.sub(key, 16)
  local ahead = pcall('GET', key_ahead)
  local spoilt = not alone and (entry.err or type(ahead) == 'table')
  ahead = type(ahead) == 'string' and ahead
  local server, known, member, guard = clock, args[1] + 0, entry[1], entry[2] or 0
  clock = server + (tonumber(ahead or 0) or greatest_token)
  local floor = string.sub(args[1], 1, 1) == '+'
  if known > math.max(clock, guard) + day and (floor or not alone) then
    return redis.error_reply(floor and 'FAR ' .. string.sub(args[1], 2) or
      'ERR the clock is more than a day behind what the agent knows: set the clock of the server right')
  end
  local least = math.max(guard, known) + 1
  if least > clock + jitter then
    -- The clock of the server was set back, or is behind. Greater tokens may be known elsewhere.
    behind = alone and least - clock <= catch_up and math.ceil((least - clock) / 1000)
    clock = alone and least or least + minute
    ahead = string.format('%.0f', clock - server)
    if not alone and not spoilt and clock <= greatest_token then
      call('SET', key_ahead, ahead)
    end
  end
  clock = math.max(clock, least)
  if spoilt or clock > greatest_token then
    return redis.error_reply('ERR the clock is spoilt or at its end: look at ' .. key .. ' and ' .. key_ahead)
  end
  first = string.format('%.0f', clock)

  local node
  if name == '-' then
    node = pcall('CLUSTER', 'MYID')
    node = type(node) == 'string' and node or '-'
  else
    name = string.match(member or '', '^%d+%.%x*')
    if not name then
      local run = string.match(call('INFO', 'server'), 'run_id:(%x+)') or ''
      name = first .. '.' .. string.sub(run, 1, 16) -- as incarnation.lua does
      pcall('PUBLISH', 'lockagent_incarnation', '') -- holders that do not call have to hear of it
    end
  end
  reply = first .. ' ' .. (node or name) .. ' ' .. (ahead or '0')
  name = name .. (ahead and ' +' or '')
  kept = alone
  if name ~= member and not alone then
    call('ZADD', key, first, name) -- first, because an empty zset has no key
    if member then
      call('ZREM', key, member)
    end
    kept = true
  end
end

--include holders.lua
--include polls.lua

-- Grants a lock that is free, or that the tenure has already. Another call for the tenure may
-- just have been granted the same token.
local token = first
local function grant(lock, tenure, lease, left, own)
  if own then
    clock = clock + 1
    token, kept = string.format('%.0f', clock), alone
  end
  if not kept then
    call('ZADD', key, token, name)
    kept = true
  end
  call('HSET', lock, tenure, '1')
  if left < lease + 0 then
    call('PEXPIRE', lock, lease)
  end
end

-- Gives a tenure the last place in the queue, and reports whether it has one. A new place removes
-- those of agents that are gone, among the first two and the two before it. It has none if the key is
-- spoilt, or the server full. A replica refuses the whole call: no lock was changed.
local function place(tenure, queue, count, agents)
  local added = pcall('ZADD', queue, 'NX', first, tenure)
  if type(added) == 'table' then
    return string.find(added.err, 'READONLY', 1, true) and call('ZADD', queue, first, tenure)
  end
  call('PEXPIRE', queue, '300000')
  if added == 1 then
    -- Sooner or later a place that nobody uses any more is in front. The former life of a program
    -- that crashes again and again is just before this one.
    local near, names = call('ZRANGE', queue, 0, 1), {}
    for _, before in ipairs(call('ZRANGE', queue, -3, -2)) do
      near[#near + 1] = before
    end
    for p, other in ipairs(near) do
      names[p] = 'lockagent_agent:' .. (string.match(other, '^(.*):') or '') .. agents
    end
    local counts = call('PUBSUB', count, unpack(names))
    for p, other in ipairs(near) do
      if counts[2 * p] == 0 and other ~= tenure then
        call('ZREM', queue, other)
      end
    end
  end
  return true
end

-- Tells the agent that has a lock that another one wants it. It does so at every attempt: the message
-- may have been lost, and a failover may bring a tenure back behind one that waits already.
local function want(lock, tenure, holder)
  local agent = string.match(holder or '', '^(.*):%d+$')
  if agent and agent ~= string.match(tenure, '^(.*):') then
    pcall('PUBLISH', 'lockagent_agent:' .. agent, 'wanted ' .. holder .. ' ' .. lock)
  end
end

-- Returns how many ms are left of the time for which a free lock is kept for outsiders. If that is more
-- than such a time lasts, the clock was set back.
local function kept_for(outsiders_until, most)
  local left = outsiders_until and math.ceil((outsiders_until - clock) / 1000) or 0
  return left <= most and left or 0
end

-- Reports whether it is the turn of those that poll, at a lock that is about to be granted, while somebody polls. An
-- agent that contends only with itself makes short pauses between its tenures. The first turn comes sooner, and so does one
-- after a turn in which those that poll took the lock.
local function polls_turn(i, suffix, tenure, value, turn_end, taken)
  local pause, soon = 10000, 100000 -- in microseconds
  local since, freed = string.match(type(value) == 'string' and value or '', '^(%d+) free (%d+)$')
  if not freed or clock - since < 0 or clock - freed >= pause then
    local sooner = not turn_end or taken and taken - turn_end > -turn_lasts
    since = sooner and clock - busy_before_turn + soon or clock
  elseif clock - since >= busy_before_turn then
    pcall('ZADD', keys[n + i], string.format('%.0f', clock + turn_lasts), 'polls')
    pcall('PEXPIRE', keys[n + i], 60000)
    return true
  end
  busy(suffix, since, tenure)
  return false
end

-- Tries one lock, and returns what there is to say about it.
local function try(i)
  local a, lock = per * (i - 1) + 2, keys[i]
  local tenure, lease, asks = args[a + 1], args[a + 2], per == 3 and args[a + 3] or ''
  local suffix = string.sub(keys[n + i], 16)
  local notes = pcall('ZMSCORE', keys[n + i], tenure, 'yield', 'polls', 'taken')
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
  if not holder then
    left = math.max(asks ~= '' and outsiders == 0 and 0 or kept_for(notes[2], 50), kept_for(notes[3], turn_lasts / 1000))
  end
  if behind and not holder then
    left = behind
  elseif own or not holder and left <= 0 then
    local theirs = false
    if asks ~= '' and outsiders == 0 and not alone then
      local tag = string.sub(key, 16)
      local seen = pcall('MGET', 'lockagent_turn' .. suffix, 'lockagent_busy' .. suffix, 'lockagent_polls' .. tag)
      outsiders = seen[1] and 1 or 0 -- one that had its turn lately comes back
      theirs = not own and polled(tag, clock, seen[3]) and polls_turn(i, suffix, tenure, seen[2], notes[3], notes[4])
    end
    if not theirs then
      grant(lock, tenure, lease, own and left or -2, own)
      if asks ~= '' and not alone then
        pcall('ZREM', 'lockagent_queue' .. suffix, tenure)
      end
      return (outsiders > 0 or token ~= first) and 'g ' .. token .. ' ' .. outsiders
    end
    left = turn_lasts / 1000
  end
  if asks ~= '' then
    want(lock, tenure, holder)
  end
  local queued = asks ~= '' and not alone and
    place(tenure, 'lockagent_queue' .. suffix, count, asks == 'sharded' and suffix or '')
  if queued and holder and outsiders == 0 then
    local tag = string.sub(key, 16)
    local seen = pcall('MGET', 'lockagent_busy' .. suffix, 'lockagent_polls' .. tag)
    local agents = type(seen[1]) == 'string' and string.match(seen[1], ' (.+)$') == holder
    if polled(tag, clock, seen[2]) and not agents then
      -- The holder may be one that polls. Then perhaps nothing tells of its release.
      local place_since = call('ZSCORE', 'lockagent_queue' .. suffix, tenure) or clock
      local most = math.max(10, math.ceil((clock - place_since) / 2000))
      if notes[3] and clock - notes[3] < 1000000 then -- the holder has had the lock since their turn
        most = 5
        pcall('ZADD', keys[n + i], first, 'taken')
      end
      left = left < 0 and most or math.min(left, most)
    end
  end
  return (queued and 'q ' or 'h ') .. left .. ' ' .. outsiders .. ' ' .. (holder or '')
end

local lines = {reply}
for r = 1, rest and #rest or n do
  local i = rest and rest[r] or r
  local line = try(i)
  if line then
    lines[#lines + 1] = i .. ' ' .. line
  end
end
return table.concat(lines, '\n')
