-- permits_share.lua is a part of the scripts for semaphores: who gets the permits that are free. It needs
-- permits_tenures.lua before it.

local pass_lease = 2000 -- in ms
local places_looked_at, standbys = 8, 2
local over_score, most_recalled = 2^52, 100 -- no place is as late as over_score
local ids_passed = 1000 -- then a script has passed enough: each permit with an id takes time
local yield, most_yield, turn_every = 5000, 50000, 250 -- in microseconds, in ms

--include foreign.lua

-- Finds out whether a program that is no agent has permits. Nothing shows them. But our scripts only move permits
-- between those that are free and those of tenures. So if the sum of both has become another one, such a program took
-- permits, or gave some back. The note "sum" has that of the last look. It is above over_score, because a note with a
-- smaller score is taken for an old one.
local function look_for_foreign()
  local sum, seen = digits(over_score + free + ours_now()), pcall('ZSCORE', 'lockagent_notes' .. suffix, 'sum')
  if type(seen) == 'string' and seen ~= sum then
    met_foreign(suffix)
  end
  if seen ~= sum then
    note(suffix, sum, 'sum')
  end
end

-- Reports whether it is the turn of the outsiders, and counts the passes until it is.
local function outsiders_turn()
  local passes = tonumber(pcall('GETRANGE', 'lockagent_turn' .. suffix, '0', '-1'))
  if not passes or passes >= call('ZCARD', queue) then
    note(suffix, clock + math.min(most_yield, (call('ZCARD', queue) + 2) * yield), 'yield') -- as release.lua does
    pcall('SET', 'lockagent_turn' .. suffix, '0', 'PX', turn_every)
    return true
  end
  pcall('INCR', 'lockagent_turn' .. suffix)
  return false
end

-- Wakes all waiters if permits are free. It returns how many wait, ourselves included, or -1 if that is not known.
local function wake()
  if not free or free <= 0 then
    return 0
  end
  local heard = pcall(publish, channel, digits(free))
  return type(heard) == 'number' and heard or -1
end

-- With ids, the number of all permits is known. A tenure that wants more than there are is passed over: it must not stand in the
-- way of others for as long as nobody adds permits. It keeps its place, for when somebody does. Without ids, programs with Redisson may have
-- any number of permits, so no request is known to be too large.
local function is_too_large(n)
  return with_ids and n > free + taken_now()
end

-- Passes over a tenure in the queue, which wants n permits.
local function pass_over(tenure, n)
  local place = pcall('ZSCORE', queue, tenure)
  if type(place) == 'string' and place + 0 < over_score then
    call('HSET', wanted, tenure, n .. ' ' .. place)
    call('ZADD', queue, 'XX', digits(over_score + n), tenure)
  end
end

-- Gives back their places to tenures that were passed over, if there are enough permits by now. It returns whether there may be more of them.
local function recall()
  if not with_ids or not free then
    return false
  end
  local back = pcall('ZRANGEBYSCORE', queue, digits(over_score), digits(over_score + free + taken_now()), 'LIMIT', 0, most_recalled)
  for _, tenure in ipairs(back) do
    local n, place = string.match(pcall('HMGET', wanted, tenure)[1] or '', '^(%d+) (%d+)$')
    if n then
      call('HSET', wanted, tenure, n)
    end
    call('ZADD', queue, 'XX', place or digits(clock), tenure)
  end
  return #back == most_recalled
end

-- Returns the first n tenures in the queue that are not passed over. There are none if the key is spoilt.
local function first_places(n)
  local places = pcall('ZRANGEBYSCORE', queue, '-inf', '(' .. digits(over_score), 'LIMIT', 0, n)
  return places.err and {} or places
end

-- Passes the free permits to the tenures in the queue, as long as they suffice for the next. It
-- returns whether it passed any. If it has not looked at all places, or has passed many ids, the next ones are to ask at
-- once: then the queue is looked at further.
local function spread(trace)
  local passed = false
  if room == 'unqueued' or not free or free <= 0 then
    return passed
  end
  local more_recalled, front = recall(), first_places(places_looked_at + standbys)
  if front[1] then
    local names = {channel, 'lockagent_agents' .. suffix}
    for p, place in ipairs(front) do
      names[p + 2] = channel_of(string.match(place, '^(.*):'), suffix)
    end
    local counts = listeners(names)
    local outsiders, p, enough = outsiders_among(counts), 1, with_ids and ids_passed or math.huge
    local theirs
    if outsiders > 0 then
      theirs = outsiders_turn()
    else
      look_for_foreign()
      theirs = foreign_turn(suffix, true)
    end
    local function stand_by(nth, ms)
      pcall(publish, names[nth + 2], kind .. ' standby ' .. front[nth] .. ' ' .. ms .. ' ' .. lock)
    end
    while not theirs and p <= #front and p <= places_looked_at and free > 0 and enough > 0 do
      local tenure, listens = front[p], counts[2 * p + 4] > 0
      local n = tonumber(pcall('HMGET', wanted, tenure)[1])
      local too_few = listens and n and n > free
      if too_few and not is_too_large(n) then
        break
      end
      if too_few then
        pass_over(tenure, n)
      elseif listens and n then
        local token, incarnation = begin()
        if not token then
          break
        end
        take(tenure, n, pass_lease)
        enough = enough - n
        local name = incarnation == '-' and pcall('CLUSTER', 'MYID') or incarnation
        name = type(name) == 'string' and name or '-'
        local heard = pcall(publish, names[p + 2], kind .. ' passed ' .. tenure .. ' ' .. token .. ' ' .. token ..
          ' ' .. name .. '/' .. ahead .. ' ' .. outsiders .. ' ' .. incarnation .. ' ' .. trace .. ' ' .. total() ..
          ' ' .. lock)
        if type(heard) == 'number' and heard > 0 then
          passed = true
        else
          drop(tenure, n)
        end
      elseif listens then -- nothing says what it wants
        stand_by(p, 0)
      end
      if not too_few then
        call('ZREM', queue, tenure)
        pcall('HDEL', wanted, tenure)
      end
      p = p + 1
    end
    local more, told = not theirs and free > 0 and (p > places_looked_at or enough <= 0 or more_recalled), false
    for next = p, (passed or more) and math.min(p + standbys - 1, #front) or 0 do
      told = told or counts[2 * next + 4] > 0
      stand_by(next, more and 0 or pass_lease)
    end
    if more and not told then
      wake()
    end
  end
  return passed
end

-- Spreads permits that have come back. If some are left, it wakes the waiters. It also returns what
-- wake does.
local function share(trace)
  local passed = spread(trace)
  return passed, wake()
end
