-- permits_acquire.lua tries once to begin a tenure of a semaphore, see permits.lua.
--
-- ARGV[7]   the greatest time that the agent knows, see acquire.lua
-- ARGV[8]   the incarnation that the agent knows, see acquire.lua
-- ARGV[9]   the tenure
-- ARGV[10]  the lease in ms
-- ARGV[11]  the number of permits
-- ARGV[12]  ARGV[2] if the tenure asks for a place in the queue, or ""
--
-- Reply: as of acquire.lua, for one lock, with "p" for "g", and "P" for "G". The first place in the queue has a "k", as
-- behind a holder that tells nobody. A "p" ends with the number of all permits, or 0 if the tenure had its permits
-- before. In place of a holder there is a text for people. A "u" with the number of outsiders says that nobody has set
-- the semaphore.

local call, pcall = redis.call, redis.pcall
local seen = call('TIME')

--include permits_id.lua

--include permits_quick.lua

--include advance.lua

--include permits.lua

-- Gives a tenure the last place in the queue, unless it has one, and reports whether it has one now. It has none if a
-- key is spoilt, or the server full. A replica refuses the whole call: nothing was changed.
--   n  how many permits it wants
local function permits_place(s, time, who, n)
  local placed = pcall('HSET', s.wanted, who, n)
  if type(placed) == 'number' then
    placed = pcall('ZADD', s.queue, 'NX', clock_shows(time), who)
  end
  if type(placed) == 'table' then
    pcall('HDEL', s.wanted, who)
    return string.find(placed.err, 'READONLY', 1, true) and call('ZADD', s.queue, clock_shows(time), who) == 1
  end
  call('PEXPIRE', s.wanted, 300000)
  call('PEXPIRE', s.queue, 300000)
  return true
end

-- Tells the agents of some tenures that have permits that a tenure waits for more than are free. Agents that are not
-- told learn of it when they renew their leases. The agent that waits is told of its own tenures, too: a failover may
-- have brought back one that the agent has released. Then the agent ends that tenure.
local most_told = 8
local function permits_want(s)
  for _, holder in ipairs(call('ZRANGE', s.tenures, 0, most_told - 1)) do
    ways_want(s, string.match(holder, '^([^:]*)'), holder)
  end
end

local s, err = permits_read(KEYS[1], ARGV, seen)
if err then
  return redis.error_reply(err)
end
local time, reply = clock_advance(ARGV[6], ARGV[7], ARGV[8], seen)
if not time then
  return reply
end
local who, lease, need, asks, unqueued = ARGV[9], ARGV[10] + 0, ARGV[11] + 0, ARGV[12] ~= '', s.room == 'unqueued'
local notes = pcall('ZMSCORE', 'lockagent_notes' .. s.suffix, who, 'yield', 'polls')
if notes[1] then
  return reply .. '\n1 w'
end
local back = permits_reclaim(s)
local had, own = permits_has(s, who)
if had and not own then
  permits_drop(s, who, had)
  back = true
end
local outsiders = asks and ways_outsiders(s.room, s.channel, s.suffix) or 0
if not s.free then
  if permits_leave(s, who) == 1 then
    ways_publish(s.room, s.channel, '0') -- somebody deleted the semaphore. The others learn of it, too
  end
  return reply .. '\n1 u ' .. outsiders
end

local too_large, kept = permits_too_large(s, need), 0 -- how long free permits are kept from the tenure, in microseconds
if too_large then
  permits_leave(s, who)
end
if not own then
  kept = math.max((unqueued or asks and outsiders == 0) and 0 or turns_kept(time, notes[2]), turns_kept(time, notes[3]))
end
if asks then
  permits_meet_foreign(s, time)
end
local open = own or kept == 0 and need <= s.free and (permits_first(s) or who) == who
if open and not own and outsiders == 0 then
  kept = turns_foreign(s, time, asks)
  open, notes[3] = kept == 0, kept > 0 and time.now + kept or notes[3]
end
local line, next, wants, to
if open then
  local token, total = clock_shows(time), own and 0 or s.free + permits_taken(s)
  if own then
    permits_extend(s, who, had, lease)
  else
    permits_take(s, who, need, lease)
  end
  permits_leave(s, who)
  next, wants, to = permits_first(s)
  call('ZADD', time.key, token, time.member)
  line = (asks and next and wants > s.free and 'P ' or 'p ') .. token .. ' ' .. outsiders .. ' ' .. total
else
  local queued = asks and not too_large and permits_place(s, time, who, need)
  next, wants, to = permits_first(s)
  if queued and next == who and need > s.free then
    permits_want(s) -- those who come later need not: the holders know
  elseif queued and next and wants > s.free then
    -- The first one asks within this time anyway. But a failover may have brought its place back. Then its agent gives
    -- the place up, and the next one tells the holders, among whom there may be ghosts.
    queue_stand_by(s, to, next, pass_lease)
  end
  local code = queued and (next == who and 'k ' .. turns_ask_within(time, notes[3]) or 'q') or 'h'
  if kept > 0 then
    line = code .. ' ' .. math.ceil(kept / 1000) .. ' ' .. outsiders .. ' '
  else
    line = code .. ' ' .. permits_left(s) .. ' ' .. outsiders .. ' others (' .. s.free .. ' of ' ..
      s.free + permits_taken(s) .. ' permits free)'
  end
end
if back then
  permits_wake(s)
end
if next and wants <= s.free and kept == 0 then
  queue_stand_by(s, to, next, 0)
end
return reply .. '\n1 ' .. line
