-- fence.lua is a part of scripts for fenced locks: the tokens that Redisson has in a key of its own. That key has the
-- greatest token that anybody has used. While a tenure of ours has the lock, the key is above the tenure's tokens by
-- what is left of the lease, because the tenure may use a token in each microsecond. So a tenure that dies leaves a key
-- that is right when the lease is over. Redisson adds one to the key.
--
-- key is the token key of a lock. Leases are in ms.

--include clock.lua

-- Returns the number in a token key, or nil if there is no such key, and the text of an error.
local function fence_read(key)
  local value = pcall('GETRANGE', key, '0', '-1')
  if type(value) == 'table' then
    return nil, value.err
  elseif not string.find(value, '^%d+$') and (value ~= '' or pcall('EXISTS', key) == 1) then
    return nil, 'WRONGTYPE the token key has no number'
  end
  return tonumber(value)
end

local function fence_set(key, used)
  call('SET', key, string.format('%.0f', math.min(used, greatest_token))) -- without a TTL
end

-- Finds the token of a tenure that begins now, and raises the key.
--   token  the token that the clock gives, as a text
--   floor  the token has to be above it
--   lease  of the tenure
--   left   what is left of the lease if the tenure has the lock already, or 0
--   time   see clock.lua
-- Returns the token as a text, or nil and the text of an error.
local function fence_raise(key, token, floor, lease, left, time)
  local known, err = fence_read(key)
  if not err and floor > (known or 0) + day and floor > time.server + day then
    err = 'FAR ' .. string.format('%.0f', floor)
  end
  local used, lasts = math.max((known or 0) - math.max(left, 0) * 1000, floor), math.max(lease, left) * 1000
  if not err and used + lasts >= greatest_token then
    err = 'TOKENS ' .. key
  end
  if err then
    return nil, err
  end
  local first = math.max(token, used + 1)
  fence_set(key, first + lasts)
  return string.format('%.0f', first)
end

-- A tenure has ended.
--   last  its last token, or 0
--   left  what was left of its lease, or nil if it did not have the lock. Only that may be taken off: another program
--         may have moved the key, too
local function fence_lower(key, last, left, time)
  local known = fence_read(key) or 0
  if last > math.max(time.server, known) + day then
    last = 0 -- that is no token, and must not use up the others
  end
  local used = left and math.max(last, known - math.max(left, 0) * 1000) or math.max(last, known)
  if used ~= known then
    fence_set(key, used)
  end
end

-- The lease of a tenure goes on. left is what was left of the lease before.
local function fence_extend(key, lease, left, now)
  local known, err = fence_read(key)
  local more = lease - math.max(left, 0)
  if not err and (more > 0 or not known) then
    fence_set(key, math.max((known or 0) + more * 1000, now + lease * 1000))
  end
end
