-- permits_release.lua ends a tenure of a semaphore, or withdraws a tenure that has not begun, see
-- permits.lua.
--
-- ARGV[7]  the greatest token of the tenure, or 0 if the clock is known to have reached it
-- ARGV[8]  the tenure
-- ARGV[9]  flags, as of release.lua
--
-- Reply: as of release.lua, for one lock.

local call, pcall = redis.call, redis.pcall
local seen = call('TIME')

--include permits_id.lua

--include permits_free.lua

--include permits.lua

--include hand_on.lua

-- Passes the free permits to the first tenures in the queue, as long as they suffice for the next, unless it is the
-- turn of others. Reports whether it passed any.
--   trace  see queue_tell
local ids_passed = 1000 -- then a script has passed enough: each permit with an id takes time
local function permits_pass(s, time, trace)
  local who, n, channel = permits_first(s)
  if not who then
    return false
  end
  local outsiders = ways_outsiders(s.room, s.channel, s.suffix)
  local theirs, expected = turns_theirs(s, outsiders)
  if theirs then
    turns_yield(s, time, call('ZCARD', s.queue) + 1)
    return false
  end
  permits_meet_foreign(s, time)
  if outsiders == 0 and turns_foreign(s, time, true) > 0 then
    return false
  end
  local passed, ids, begun = 0, 0, {}
  while who and n <= s.free and passed < places_looked_at and ids < ids_passed do
    local token = clock_token(time, true)
    if not token then
      return passed > 0
    end
    permits_take(s, who, n, pass_lease + 0)
    permits_leave(s, who)
    local next, wants, to = permits_first(s)
    local contested = next and wants > s.free
    if not queue_tell(s, time, channel, who, token, expected, trace, s.free + permits_taken(s) .. ' ', contested) then
      permits_drop(s, who, n)
      return passed > 0
    end
    for _, holder in ipairs(contested and begun or {}) do -- they were told when the next tenure had not begun
      ways_want(s, string.match(holder, '^([^:]*)'), holder)
    end
    passed, ids, begun[passed + 1] = passed + 1, s.ids and ids + n or 0, who
    who, n, channel = next, wants, to
  end
  -- If permits are left for the next one, it asks for itself.
  local within = who and n <= s.free and 0 or pass_lease
  for _, place in ipairs((passed > 0 or within == 0) and call('ZRANGE', s.queue, 0, standbys - 1) or {}) do
    queue_stand_by(s, ways_channel_of(s.room, string.match(place, '^([^:]*)'), s.suffix), place, within)
  end
  return passed > 0
end

local s, err = permits_read(KEYS[1], ARGV, seen)
local time, who, flags = clock_read(ARGV[6], seen), ARGV[8], ARGV[9]
-- A semaphore that somebody deleted may be set as the other kind by now. Then the tenure is over, and only its place is
-- left.
if err and call('ZSCORE', s.tenures, who) then
  return redis.error_reply(err)
end
local back, n, own = false, nil, false
if not err then
  back = permits_reclaim(s)
  n, own = permits_has(s, who)
end
if n then
  permits_drop(s, who, n)
end
local placed = permits_leave(s, who)
if type(placed) == 'table' and not string.find(placed.err, 'WRONGTYPE', 1, true) then
  return placed -- the server takes no writes: nothing was done
end
clock_raise(time, ARGV[7] + 0)
if string.find(flags, 'u', 1, true) then
  note(s.suffix, time.now, who, time.now)
end
local at, line = clock_shows(time), nil -- permits that are passed on are granted later
-- A place may have been in the way of smaller requests.
if not err and s.free and s.free > 0 and (back or n or placed == 1) then
  line = permits_pass(s, time, string.match(flags, 't(.+)') or '-') and 'p'
  local others = woke(s.room, flags, permits_wake(s))
  line = line or others
end
line = own and line or not own and clock_not_there(time, flags)
return line and at .. '\n1 ' .. line or at
