-- permits.lua is a part of the scripts for semaphores: who has permits, and who waits for them. The scripts are called
-- with
--
-- KEYS[1]  the number of free permits: Redisson's. Absent if nobody has set it
-- Then all other keys that the script uses, see permits.go. While their slot migrates, a node runs the script
-- only if it has all keys that are declared. If one were not, it might be at the other node, and the
-- script would miss a change or a tenure.
-- ARGV[1]  "semaphore" or "permits"
-- ARGV[2]  how messages travel, see ways.lua
-- ARGV[3]  the suffix of our keys, such as ":{a}"
-- ARGV[4]  the suffix of Redisson's channels
-- ARGV[5]  {a}:timeout, Redisson's zset of the ids of the permits that are taken, each with the end
--          of its lease in ms. Only of the kind "permits"
-- ARGV[6]  the name of the clock, see acquire.lua
--
-- A semaphore is a table. It has name, kind, suffix, room, channel and queue, as a lock in tenure.lua, and
--   ids      ARGV[5], or nil of the kind "semaphore"
--   tenures  zset: the tenures that have permits, with the end of their leases in ms. It is lockagent_permits:{a}, and
--            lockagent_tenures:{a} of the kind "permits". So the keys tell the kind
--   theirs   the same of the other kind
--   taken    hash: the numbers of permits that they have. Under "+" the sum of what they have beyond 1
--   wanted   hash: the numbers of permits that those in the queue want
--   ms       the server's own time in ms
--   free     the number of free permits, or nil if nobody has set it
--   made     the ids of permits that were made, by tenure
--
-- A key of another type must not leave a change half done. So what is written first is what may fail.

--include number.lua

--include permits_id.lua

--include queue.lua

--include turns.lua

-- Reads a semaphore.
--   name  the key
--   args  ARGV
--   seen  what TIME has replied
-- Returns it, and the text of an error if the name is no semaphore of this kind. If the number is gone, so are the
-- tenures. Redisson's ids are not. A renewal does not declare the keys of the other kind, see permits_renew.lua.
local function permits_read(name, args, seen)
  local suffix, with_ids = args[3], args[1] == 'permits'
  local ours, theirs = 'lockagent_permits' .. suffix, 'lockagent_tenures' .. suffix
  if with_ids then
    ours, theirs = theirs, ours
  end
  local free, err = number_of(name, 14) -- Lua writes more digits than that with an exponent
  if not err and (free and pcall('EXISTS', theirs) == 1 or not with_ids and pcall('EXISTS', args[5]) == 1) then
    err = 'KIND ' .. (with_ids and 'semaphore' or 'permits')
  end
  return {
    name = name, kind = args[1] .. ' ', suffix = suffix, room = args[2], channel = 'redisson_sc' .. args[4],
    queue = 'lockagent_queue' .. suffix, wanted = 'lockagent_wanted' .. suffix, taken = 'lockagent_taken' .. suffix,
    tenures = ours, theirs = theirs, ids = with_ids and args[5] or nil,
    ms = math.floor((seen[1] * 1000000 + seen[2]) / 1000), free = tonumber(free), made = {},
  }, err
end

-- Returns how many permits tenures have.
local function permits_ours(s)
  return call('ZCARD', s.tenures) + (call('HMGET', s.taken, '+')[1] or 0)
end

-- Returns how many permits are known to be taken.
local function permits_taken(s)
  return s.ids and call('ZCARD', s.ids) or permits_ours(s)
end

-- Returns how many ms are left of the lease that ends first, or -1 if none has an end.
local endless = '922337203685477' -- Redisson's score of a permit without a lease
local function permits_left(s)
  local first = call('ZRANGEBYSCORE', s.ids or s.tenures, '(' .. s.ms, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  return first and first ~= endless and math.max(1, first - s.ms - 1) or -1
end

-- Returns the ids of at least the first n permits of a tenure. They are made once, because that takes long.
local function permits_ids(s, who, n)
  local made = s.made[who] or {}
  for k = #made + 1, n do
    made[k] = permit_id(who, k)
  end
  s.made[who] = made
  return made
end

-- Returns how many permits a tenure has, or nil, and whether its lease goes on and it has all of them. Otherwise the
-- tenure is over. One of the two keys may have been evicted. Without the number nobody knows what the tenure was
-- granted: then one permit comes back. Permits with ids have ends of their own, and the others come back then.
local function permits_has(s, who)
  local score, n = call('ZSCORE', s.tenures, who), call('HMGET', s.taken, who)[1]
  if not score and not n then
    return nil, false
  end
  local whole = score and score + 0 > s.ms and n and true or false
  n = tonumber(n or 1)
  if whole and s.ids then
    local scores = call('ZMSCORE', s.ids, unpack(permits_ids(s, who, n), 1, n))
    for k = 1, n do
      whole = whole and scores[k] and scores[k] + 0 > s.ms
    end
  end
  return n, whole
end

-- Notes that tenures have so many permits more beyond the first one of each, or fewer. When nobody has permits, nothing
-- is left.
local function permits_beyond(s, n)
  if n ~= 0 and call('HINCRBY', s.taken, '+', n) == 0 then
    call('HDEL', s.taken, '+')
  end
end

-- Starts the lease of a tenure with n permits anew, unless it ends later already. Returns how many of the permits were
-- free.
--   lease  in ms
local function permits_extend(s, who, n, lease)
  local till, added = s.ms + 1 + lease, n
  call('ZADD', s.tenures, 'GT', till, who)
  if s.ids then
    local entries, ids = {}, permits_ids(s, who, n)
    for k = 1, n do
      entries[2 * k - 1], entries[2 * k] = till, ids[k]
    end
    added = call('ZADD', s.ids, 'GT', unpack(entries))
  end
  -- Redisson's keys live as long as each other. Ours live longer, because Redisson may give the number of free permits
  -- a longer life: then they are needed to take back the permits. They do not stay for ever, because Redisson may
  -- delete that number, and perhaps nobody asks for it again. Without ids only our keys tell which permits are taken.
  local left = call('PTTL', s.name)
  local least = math.max(left, lease) + (s.ids and 1 or 100) * 86400000
  for _, key in ipairs({s.tenures, s.taken}) do
    if call('PTTL', key) < least then
      call('PEXPIRE', key, string.format('%.0f', least))
    end
  end
  if s.ids and left >= 0 then
    call('PEXPIRE', s.ids, left)
  elseif s.ids and call('PTTL', s.ids) >= 0 then
    call('PERSIST', s.ids)
  end
  return added
end

-- Ends a tenure with n permits, and takes back those that are still there.
local function permits_drop(s, who, n)
  call('HDEL', s.taken, who)
  permits_beyond(s, 1 - n)
  call('ZREM', s.tenures, who)
  s.free = call('INCRBY', s.name, s.ids and call('ZREM', s.ids, unpack(permits_ids(s, who, n), 1, n)) or n)
end

-- Gives a tenure that has no permits n of the free ones. Some with its ids may be taken still: somebody extended them.
local function permits_take(s, who, n, lease)
  call('HSET', s.taken, who, n)
  permits_beyond(s, n - 1)
  s.free = call('INCRBY', s.name, 0 - permits_extend(s, who, n, lease)) -- and never "-0"
end

-- Takes back some of the permits whose leases are over, and reports whether there were some. If the number of free
-- permits is gone, so are the tenures.
local most_reclaimed = 100
local function permits_reclaim(s)
  if not s.free then
    call('DEL', s.tenures, s.theirs, s.taken)
    return false
  end
  local over, back = call('ZRANGEBYSCORE', s.tenures, 0, s.ms, 'LIMIT', 0, most_reclaimed), 0
  if over[1] then
    for _, n in ipairs(call('HMGET', s.taken, unpack(over))) do
      back = back + (n or 1)
    end
    permits_beyond(s, #over - back)
    call('HDEL', s.taken, unpack(over))
    call('ZREM', s.tenures, unpack(over))
  end
  if s.ids then
    over = call('ZRANGEBYSCORE', s.ids, 0, s.ms, 'LIMIT', 0, most_reclaimed)
    back = over[1] and call('ZREM', s.ids, unpack(over)) or 0
  end
  if back > 0 then
    s.free = call('INCRBY', s.name, back)
  end
  return back > 0
end

-- Wakes all waiters if permits are free. Returns how many heard it, or an error if the user may not publish there.
local function permits_wake(s)
  return s.free > 0 and ways_publish(s.room, s.channel, s.free) or 0
end

-- Takes a tenure out of the queue. Returns 1 if it was there, or an error.
local function permits_leave(s, who)
  pcall('HDEL', s.wanted, who)
  return pcall('ZREM', s.queue, who)
end

-- Reports whether a request is for more permits than there are. Without ids, programs with Redisson may have any
-- number, so no request is known to be too large.
local function permits_too_large(s, n)
  return s.ids and n > s.free and n > s.free + permits_taken(s)
end

-- Finds the first tenure in the queue. Those before it lose their places: their agents are gone, or nothing says what
-- they want, or they want more permits than there are. If their agents are there, they ask again at once.
-- Returns the tenure, how many permits it wants, and the channel of its agent, or nil.
local most_removed = 100
local function permits_first(s)
  for _ = 1, s.room == 'unqueued' and 0 or most_removed do
    local who = pcall('ZRANGE', s.queue, 0, 0)[1]
    if not who then
      return nil
    end
    local channel = ways_channel_of(s.room, string.match(who, '^([^:]*)'), s.suffix)
    local n, listens = tonumber(pcall('HMGET', s.wanted, who)[1]), ways_listeners(s.room, {channel})[2] > 0
    if listens and n and not permits_too_large(s, n) then
      return who, n, channel
    end
    permits_leave(s, who)
    if listens then
      queue_stand_by(s, channel, who, 0)
    end
  end
end

-- Has the first tenure in the queue ask at once, if the free permits suffice for it.
local function permits_next(s)
  local who, n, channel = permits_first(s)
  if who and n <= s.free then
    queue_stand_by(s, channel, who, 0)
  end
end

-- Finds out whether a program that is no agent has permits. Nothing shows them. But our scripts only move permits
-- between those that are free and those of tenures. So if the sum of both has become another one, such a program took
-- permits, or gave some back. The note "sum" has that of the last look. It is above all times, because a note with an
-- earlier one is taken for an old one.
local after_all_times = 2^52
local function permits_meet_foreign(s, time)
  local sum = after_all_times + s.free + permits_ours(s)
  local seen = pcall('ZSCORE', 'lockagent_notes' .. s.suffix, 'sum')
  seen = type(seen) == 'string' and seen + 0
  if seen and seen ~= sum then
    turns_met_foreign(s, time)
  end
  if seen ~= sum then
    note(s.suffix, time.now, 'sum', sum)
  end
end
