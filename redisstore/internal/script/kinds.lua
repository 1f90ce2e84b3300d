-- kinds.lua is a part of other scripts: functions that tell as what a name is in use, if the keys beside it show it.
-- Those keys are not declared, and may be at another node while the slot migrates: then nothing shows it.

-- The suffix of our own keys for a name.
local function own_suffix(name)
  return string.find(name, '{', 1, true) and '::' .. name or ':{' .. name .. '}'
end

-- The suffix of Redisson's keys for a name, by that of ours.
local function their_suffix(suffix)
  return (string.gsub(suffix, '^::', ':'))
end

-- What a lock without a mode is.
local function kind_of(suffix)
  return pcall('EXISTS', 'redisson_lock_token' .. their_suffix(suffix)) == 1 and 'fenced' or 'plain'
end

-- Returns "semaphore", "permits" or "latch" if one of us set or used the number lately as that, or nil.
local function noted_use(suffix, microseconds)
  local tills = pcall('ZMSCORE', 'lockagent_notes' .. suffix, '.semaphore', '.permits', '.latch')
  for n, use in ipairs({'semaphore', 'permits', 'latch'}) do
    if tills[n] and tills[n] + 0 > microseconds then
      return use
    end
  end
end

-- Returns "semaphore" or "permits" if somebody has permits with a lease that goes on, or what is noted, or nil. The name has
-- a string.
local function use_of_number(name)
  local time, suffix = call('TIME'), own_suffix(name)
  local microseconds = time[1] * 1000000 + time[2]
  local function has_tenures(key)
    local last = pcall('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
    return last and last * 1000 > microseconds
  end
  if has_tenures('lockagent_permits' .. suffix) then
    return 'semaphore'
  elseif has_tenures('lockagent_tenures' .. suffix) or has_tenures(string.sub(their_suffix(suffix), 2) .. ':timeout') then
    return 'permits'
  end
  return noted_use(suffix, microseconds)
end
