-- rw_doubt.lua is a part of the scripts for read/write locks, which needs rw.lua. It removes dead readers of other programs.
--
-- A reader of Redisson without a key that says when it ends is dead, or of version 3.44 to 3.52, which does not renew all of
-- its keys. A live one renews the hash three times in the time that it gives the hash to live. A dead one would be
-- gone with the hash, but readers of ours make the hash live on. So a reader is removed when the hash would have ended
-- without ours, if no other program has set that end since the key was missed first.
--
-- lockagent_doubts:{N} is a zset of such readers, by the time in ms at which they are removed. The score of "" is
-- the end that our scripts have set. Ours are full seconds, so that those of others are seldom like them.
local most_doubted, most_keys = 32, 8
local jitter, full_second = 2, 1000 -- in ms
local doubted = {}

-- Reports whether a reader has a key that lives, as far as the script can tell.
local function has_key(suffix, field, count)
  if not count or count + 0 > most_keys then
    return true
  end
  local names = {}
  for k = 1, count do
    names[k] = string.sub(timeout_key(suffix, field), 1, -2) .. k
  end
  return pcall('EXISTS', unpack(names)) ~= 0
end

-- The time in ms. A script may take longer than the jitter on a busy machine.
local function now()
  local at = call('TIME')
  return at[1] * 1000 + math.floor(at[2] / 1000)
end

-- Reports whether the hash ends when our scripts have set it to end.
local function as_set(lock, ends)
  local left = call('PTTL', lock)
  return ends and wall + left - jitter <= ends + 0 and ends + 0 <= now() + left + jitter
end

-- Is look, and removes dead readers of other programs.
local function look_closely(lock, suffix)
  local err, mode, list, whole = look(lock, suffix)
  if mode ~= 'read' or alone then
    return err, mode, list, whole
  end
  local ours, theirs = pcall('ZMSCORE', 'lockagent_readers' .. suffix, unpack(list)), {}
  for p, field in ipairs(list) do
    if not ours[p] and #theirs < most_doubted then
      theirs[#theirs + 1] = field
    end
  end
  local counts, silent, left = theirs[1] and call('HMGET', lock, unpack(theirs)) or {}, {}, nil
  for p, field in ipairs(theirs) do
    if not has_key(suffix, field, counts[p]) then
      silent[#silent + 1] = field
    end
  end
  left = silent[1] and call('PTTL', lock) or -1
  if left < 0 then
    return err, mode, list, whole
  end
  doubted[lock] = true
  local doubts, dead = 'lockagent_doubts' .. suffix, {}
  local known = pcall('ZMSCORE', doubts, '', unpack(silent))
  local same = as_set(lock, known[1])
  for p, field in ipairs(silent) do
    if not same or not known[p + 1] then
      pcall('ZADD', doubts, string.format('%.0f', wall + left), field)
    elseif known[p + 1] + 0 <= wall then
      dead[field] = true
      call('HDEL', lock, field)
      call('ZREM', doubts, field)
    end
  end
  local living = {}
  for _, field in ipairs(list) do
    if not dead[field] then
      living[#living + 1] = field
    end
  end
  if not living[1] and whole then
    call('DEL', lock)
    mode = nil
  end
  return nil, mode, living, whole
end

-- Notes when a hash with such readers ends, after the script has set that.
local function settle(lock, suffix)
  local left = doubted[lock] and call('PTTL', lock) or -1
  if left > 0 then
    local ends = math.ceil((now() + left) / full_second) * full_second
    for _ = 1, 3 do
      local from = now()
      call('PEXPIRE', lock, string.format('%.0f', ends - from))
      if now() - from < jitter then
        break
      end
    end
    pcall('ZADD', 'lockagent_doubts' .. suffix, string.format('%.0f', ends), '')
    pcall('PEXPIRE', 'lockagent_doubts' .. suffix, string.format('%.0f', ends - wall + 60000))
  end
end
