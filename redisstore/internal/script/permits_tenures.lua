-- permits_tenures.lua is a part of the scripts for semaphores: who has permits. It needs permits.lua and permits_id.lua
-- before it.

local most_reclaimed = 100
local keep_longer = (with_ids and 1 or 100) * 86400000 -- in ms: without ids only our keys tell which permits are taken

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
    call('DEL', tenures, their_tenures, taken)
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
