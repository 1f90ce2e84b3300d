-- rw_doubt.lua is a part of the scripts for read/write locks, which needs rw.lua. It removes dead readers of other programs.
--
-- A reader of Redisson has keys that say when it ends. Versions 3.44 to 3.52 do not renew all of them. They do renew the
-- hash, three times in the time that they give it. So a reader without a key is dead when the hash would have ended. But
-- readers of ours make the hash last longer.
--
-- lockagent_doubts:{N} is a zset. It has the readers of other programs, by the time in ms until which each may live without
-- a key. The script that finds an end of the hash that another program has set notes that end for all of them. If the end
-- is ours, it is not known when their programs renewed the hash. They do so again within doubt_lasts, or they are dead.
--
-- The score of "" is the end that our scripts have set. Ours are full seconds, so that those of others are seldom like them.
local most_doubted, most_keys = 32, 8
local doubt_lasts, forget_after = 60000, 60000 -- in ms
local full_second = 1000 -- in ms
local doubted = {} -- the locks that have such readers
local may_last -- until when each such reader of the lock may read on

-- How long the keys of a reader last, in ms: 0 if there are none, or infinite if nobody can tell.
local function key_life(suffix, field, count)
  if not count or count + 0 > most_keys then
    return math.huge
  end
  local most = 0
  for k = 1, count do
    local left = pcall('PTTL', string.sub(timeout_key(suffix, field), 1, -2) .. k)
    if type(left) ~= 'number' or left == -1 then
      return math.huge
    end
    most = math.max(most, left)
  end
  return most
end

-- Reports whether the hash ends at a time that our scripts have set.
local function as_set(lock, ends)
  local left = call('PTTL', lock)
  return ends and wall + left - jitter <= ends + 0 and ends + 0 <= now() + left + jitter
end

-- Is look, and removes dead readers of other programs.
local function look_closely(lock, suffix)
  local err, mode, list, whole, value = look(lock, suffix)
  may_last = {}
  if mode ~= 'read' or alone then
    return err, mode, list, whole, value
  end
  local ends, theirs, latest = pcall('ZMSCORE', 'lockagent_readers' .. suffix, unpack(list)), {}, nil
  for p, field in ipairs(list) do
    if ends[p] then
      latest = math.max(latest or 0, ends[p])
    elseif #theirs < most_doubted then
      theirs[#theirs + 1] = field
    end
  end
  local left = theirs[1] and call('PTTL', lock) or -1
  if left < 0 then
    return err, mode, list, whole, value
  end
  doubted[lock] = true
  local doubts, dead = 'lockagent_doubts' .. suffix, {}
  local counts, known = call('HMGET', lock, unpack(theirs)), pcall('ZMSCORE', doubts, '', unpack(theirs))
  local same = as_set(lock, known[1])
  local ours = same or as_set(lock, latest)
  for p, field in ipairs(theirs) do
    local before, life, last = known[p + 1], key_life(suffix, field, counts[p]), wall + left
    if same and before then
      last = math.max(before, wall + life)
    elseif ours then
      last = wall + math.min(left, math.max(life, doubt_lasts))
    end
    if life == 0 and last <= wall then
      dead[field] = true
      call('HDEL', lock, field)
      call('ZREM', doubts, field)
    elseif life < math.huge then
      may_last[field] = last
      pcall('ZADD', doubts, string.format('%.0f', last), field)
    end
  end
  for _, field in ipairs(pcall('ZRANGEBYSCORE', doubts, '-inf', wall - forget_after, 'LIMIT', 0, most_doubted)) do
    call('ZREM', doubts, field) -- it has left
  end
  local living = {}
  for _, field in ipairs(list) do
    if not dead[field] then
      living[#living + 1] = field
    end
  end
  if not living[1] and whole then
    call('DEL', lock)
    living = restore(lock, suffix)
    mode = living[1] and 'read'
  end
  return nil, mode, living, whole
end

-- Notes when a hash with such readers ends, after the script has set that.
local function settle(lock, suffix)
  local left = doubted[lock] and call('PTTL', lock) or -1
  if left <= 0 then
    return
  end
  local ends = now() + left
  if ends % full_second > jitter then
    ends = math.ceil(ends / full_second) * full_second
    end_at(lock, ends)
  end
  pcall('ZADD', 'lockagent_doubts' .. suffix, string.format('%.0f', ends), '')
  pcall('PEXPIRE', 'lockagent_doubts' .. suffix, string.format('%.0f', ends - wall + forget_after))
end
