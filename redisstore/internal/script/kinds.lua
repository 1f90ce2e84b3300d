-- kinds.lua is a part of other scripts: functions that tell as what a name is in use. The type of the key tells that,
-- the mode of a read/write lock, and the holder. The keys of those who have permits are not declared, and may be at
-- another node while the slot migrates: then nothing shows them.

-- The suffix of our own keys for a name.
local function own_suffix(name)
  return string.find(name, '{', 1, true) and '::' .. name or ':{' .. name .. '}'
end

-- The suffix of Redisson's keys for a name, by that of ours.
local function their_suffix(suffix)
  return (string.gsub(suffix, '^::', ':'))
end

-- Reports whether a holder is an agent. The identity of an agent ends with a UUID of version 8, unless it was given
-- another one. The clients of Redisson have UUIDs of version 4.
local function is_agent(holder)
  return string.find(holder, '%-8%x%x%x%-[89ab]%x%x%x%-' .. string.rep('%x', 12) .. ':%d+$') ~= nil
end

-- Reports whether the id of a holder has a UUID, as those of agents and of Redisson's clients.
local function has_uuid(holder)
  local uuid = string.gsub('8%-4%-4%-4%-12:', '[1-9]%d*', function(digits) return string.rep('%x', digits + 0) end)
  return string.find(holder, uuid) ~= nil
end

-- Reports whether a lock has a holder that is no agent. An agent with an identity of the application's choice has no
-- UUID.
--   fields  the holders of the lock, also with their values
--   more    whether it may have more
local function has_foreign(fields, more)
  for _, holder in ipairs(fields or {}) do
    local tenure = string.match(holder, '^(.*):write$') or holder
    if has_uuid(tenure) and not is_agent(tenure) then
      return true
    end
  end
  return more
end

-- Returns as which kind an agent holds a lock, or nil if nothing shows it. The value of a field is a hold count to
-- Redisson. A tenure has the lock once, so an agent need not count: the last digit that it writes tells the kind. It is
-- held_as in the scripts. Agents of earlier versions write 1, which tells nothing. So do other programs, which count.
local function kind_of_holder(holder, count)
  local kinds = is_agent(holder) and {['2'] = 'plain', ['3'] = 'fair', ['4'] = 'fenced', ['5'] = 'spin'}
  return kinds and kinds[string.match(count, '^1?(%d)$')]
end

-- Reports whether a holder is a tenure that may rest. Then its count has a 1 before the digit for the kind.
local function may_rest(holder, count)
  return is_agent(holder) and string.find(count, '^1%d$') ~= nil
end

-- Returns as which other kind than that of held_as, which is the digit of the script, an agent holds a lock, or nil.
local function other_kind(holder, count, held_as)
  local kind = kind_of_holder(holder, count)
  return string.sub(count, -1) ~= held_as and kind or nil
end

-- Returns "semaphore" or "permits" if somebody has permits with a lease that goes on, or nil. The name has a string.
local function use_of_number(name)
  local time, suffix = call('TIME'), own_suffix(name)
  local microseconds = time[1] * 1000000 + time[2]
  local function has_tenures(key)
    local last = pcall('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
    return last and last * 1000 > microseconds
  end
  local ids = string.sub(their_suffix(suffix), 2) .. ':timeout'
  if has_tenures('lockagent_permits' .. suffix) then
    return 'semaphore'
  elseif has_tenures('lockagent_tenures' .. suffix) or has_tenures(ids) then
    return 'permits'
  end
end
