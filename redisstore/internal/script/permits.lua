-- permits.lua is a part of the scripts for semaphores. It needs number.lua and permits_id.lua before it.
--
-- KEYS[1]  the number of free permits: Redisson's. Absent if nobody has set it
-- Then all other keys that the script uses, see permits.go. While their slot migrates, a node runs the script
-- only if it has all keys that are declared. If one were not, it might be at the other node, and the
-- script would miss a change or a tenure.
-- ARGV[1]  "semaphore" or "permits"
-- ARGV[2]  how messages travel, see release.lua
-- ARGV[3]  the suffix of our keys, such as ":{a}"
-- ARGV[4]  the suffix of Redisson's channels
-- ARGV[5]  {a}:timeout, Redisson's zset of the ids of the permits that are taken, each with the end
--          of its lease in ms. Only of the kind "permits"
-- ARGV[6]  the name of the clock, see acquire.lua
--
-- Our keys:
--   lockagent_permits:{a}  zset: the tenures that have permits, with the end of their leases in ms
--   lockagent_tenures:{a}  the same of the kind "permits". So the keys tell the kind
--   lockagent_taken:{a}    hash: the numbers of permits that they have. Under "+" the sum of what they have beyond 1
--   lockagent_queue:{a}    zset: the tenures that wait, with the times of their places. Those that are passed over are at
--                          the end, with over_score + the number of permits that they want
--   lockagent_wanted:{a}   hash: the numbers of permits that they want. After it, the place of one that is passed over
--
-- A key of another type must not leave a change half done. So what is written first is what may fail.

local lock = KEYS[1]
local kind, room, suffix, ids = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local channel, with_ids = 'redisson_sc' .. ARGV[4], ARGV[1] == 'permits'
local tenures = (with_ids and 'lockagent_tenures' or 'lockagent_permits') .. suffix
local taken, queue, wanted = 'lockagent_taken' .. suffix, 'lockagent_queue' .. suffix, 'lockagent_wanted' .. suffix
--include old_ways.lua
local pass_lease = 2000 -- in ms
local places_looked_at, standbys, most_reclaimed = 8, 2, 100
local over_score, most_recalled = 2^52, 100 -- no place is as late as over_score
local ids_passed = 1000 -- then a script has passed enough: each permit with an id takes time
local yield, most_yield, turn_every = 5000, 50000, 250 -- in microseconds, in ms
local endless = '922337203685477' -- Redisson's score of a permit without a lease
local keep_longer = (with_ids and 1 or 100) * 86400000 -- in ms: without ids only our keys tell which permits are taken

local time = call('TIME')
local server, most = time[1] * 1000000 + time[2], 9007199254740991
local now, clock = math.floor(server / 1000), server -- in ms, in microseconds
local ahead = pcall('GETRANGE', 'lockagent_ahead' .. string.sub(ARGV[6], 16), '0', '-1')
ahead = type(ahead) == 'string' and string.find(ahead, '^%d+$') and server + ahead <= most and ahead or '0'
clock = server + ahead

local function digits(n) return string.format('%.0f', n) end

-- refused is the text of the error if the name is not a semaphore of this kind.
local free, refused = number_of(lock, 18) -- as much as the count of a latch may have
-- Keys of the other kind. If the number is gone, so are the tenures. A renewal does not declare these keys, see
-- permits_renew.lua.
for _, key in ipairs(with_ids and {'lockagent_permits' .. suffix} or {ids, 'lockagent_tenures' .. suffix}) do
  local there = pcall('EXISTS', key) == 1
  if there and not free and not refused and key ~= ids then
    call('DEL', key, taken)
  elseif there then
    refused = refused or 'KIND ' .. (with_ids and 'semaphore' or 'permits')
  end
end
if free and #free > 15 then
  refused, free = refused or 'WRONGTYPE the number is too great', nil
end
free = free and tonumber(free)

-- Returns what the clock shows, which never goes back.
local function shows()
  local entry = pcall('ZRANGE', ARGV[6], -1, -1, 'WITHSCORES')
  local guard = tonumber(entry[2] or 0)
  return guard <= most and math.max(clock, guard) or clock, entry[1], guard
end

-- Moves the clock: an acquire may know of greater tokens.
local function move_clock(to)
  clock = math.max(clock, to)
end

-- Returns the token of a tenure that begins now, and the incarnation. It returns nil if the clock
-- was set back, for an acquire has to set it right.
local function begin()
  local _, member, guard = shows()
  local at = math.max(clock, guard + 1)
  if not member or at > clock + 100 then
    return nil
  end
  call('ZADD', ARGV[6], digits(at), member)
  return digits(at), string.match(member, '^%S+')
end

-- Returns the ids of the n permits of a tenure.
local function ids_of(tenure, n)
  local all = {}
  for k = 1, n do
    all[k] = permit_id(tenure, k)
  end
  return all
end

-- The number of permits of a tenure, and whether its lease goes on and it has all of them. Otherwise the tenure is
-- over. One of the two keys may have been evicted. Without the number nobody knows what the tenure was granted: then one
-- permit comes back. Permits with ids have ends of their own, and the others come back then.
local function has(tenure)
  local score, n = call('ZSCORE', tenures, tenure), call('HMGET', taken, tenure)[1]
  if not score and not n then
    return nil, false
  end
  local whole = score and score + 0 > now and n
  n = tonumber(n or 1)
  if whole and with_ids then
    local scores = call('ZMSCORE', ids, unpack(ids_of(tenure, n)))
    for k = 1, n do
      whole = whole and scores[k] and scores[k] + 0 > now
    end
  end
  return n, whole and true or false
end

-- The number of permits that tenures have.
local function ours_now()
  return call('ZCARD', tenures) + (call('HMGET', taken, '+')[1] or 0)
end

-- The number of all permits: those that are free, and those that are known to be taken.
local function taken_now()
  return with_ids and call('ZCARD', ids) or ours_now()
end
local function total() return digits(free + taken_now()) end

-- Notes that tenures have so many permits more beyond the first one of each, or fewer.
local function beyond(n)
  if n ~= 0 then
    if call('HINCRBY', taken, '+', n) == 0 then
      call('HDEL', taken, '+') -- so nothing is left when nobody has permits
    end
  end
end

-- The lease of a tenure ends so many ms from now, or later if it ends later already.
local function extend(tenure, n, lease)
  local till = digits(math.ceil(server / 1000) + lease)
  call('ZADD', tenures, 'GT', till, tenure)
  if with_ids then
    local entries = {}
    local own = ids_of(tenure, n)
    for k = 1, n do
      entries[2 * k - 1], entries[2 * k] = till, own[k]
    end
    call('ZADD', ids, 'GT', unpack(entries))
  end
  -- Redisson's keys live as long as each other. Ours live longer, because Redisson may give the number of free permits
  -- a longer life: then they are needed to take back the permits. They do not stay for ever, because Redisson may
  -- delete that number, and perhaps nobody asks for it again.
  local left = call('PTTL', lock)
  for _, key in ipairs({tenures, taken}) do
    local least = math.max(left, lease) + keep_longer
    if call('PTTL', key) < least then
      call('PEXPIRE', key, digits(least))
    end
  end
  if with_ids and left >= 0 then
    call('PEXPIRE', ids, left)
  elseif with_ids and call('PTTL', ids) >= 0 then
    call('PERSIST', ids)
  end
end

-- Ends a tenure with n permits, and takes back those that are still there.
local function drop(tenure, n)
  call('HDEL', taken, tenure)
  beyond(1 - n)
  call('ZREM', tenures, tenure)
  local back = n
  if with_ids and n > 0 then
    back = call('ZREM', ids, unpack(ids_of(tenure, n)))
  end
  free = call('INCRBY', lock, back)
end

-- Gives a tenure n of the free permits. Some of a former lease of it may not have been taken back yet.
local function take(tenure, n, lease)
  local before = has(tenure)
  if before then
    drop(tenure, before)
  end
  call('HSET', taken, tenure, n)
  beyond(n - 1)
  local back = with_ids and call('ZREM', ids, unpack(ids_of(tenure, n))) or 0
  extend(tenure, n, lease)
  free = call('INCRBY', lock, back - n)
end

-- Takes back the permits whose leases are over, and reports whether there were some. If the number
-- of free permits is gone, so are the tenures.
local function reclaim()
  if not free then
    if call('EXISTS', tenures, taken) > 0 then
      call('DEL', tenures, taken)
    end
    return false
  end
  local back = 0
  local over = call('ZRANGEBYSCORE', tenures, 0, digits(now), 'LIMIT', 0, most_reclaimed)
  if over[1] then
    for _, n in ipairs(call('HMGET', taken, unpack(over))) do
      back = back + (n or 1)
    end
    beyond(#over - back)
    call('HDEL', taken, unpack(over))
    call('ZREM', tenures, unpack(over))
  end
  if with_ids then
    over = call('ZRANGEBYSCORE', ids, 0, digits(now), 'LIMIT', 0, most_reclaimed)
    back = over[1] and call('ZREM', ids, unpack(over)) or 0
  end
  if back > 0 then
    free = call('INCRBY', lock, back)
  end
  return back > 0
end

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
