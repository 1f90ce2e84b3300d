-- number.lua is a part of the scripts for semaphores and latches.

--include kinds.lua

-- Returns the text of an error that tells of which kind a lock is, or nil if the key is no lock.
local function number_is_lock(key)
  local mode = pcall('HMGET', key, 'mode')
  if mode.err then
    return nil
  elseif mode[1] then
    return 'KIND readwrite'
  end
  local first = call('HSCAN', key, '0', 'COUNT', '1')[2]
  local sound = first[1] and string.find(first[1], '^[%w_%-]+:%-?%d+')
  return sound and 'KIND ' .. (kind_of_holder(first[1], first[2]) or 'plain') or 'WRONGTYPE the hash is no lock'
end

-- Reads the number that a key has.
--   most  how many bytes it may have
-- Returns it as a text, or nil if there is no key. Returns nil and the text of an error if the key has something else.
local function number_of(key, most)
  local value = pcall('GETRANGE', key, '0', '-1')
  if value == '' and pcall('EXISTS', key) == 0 then
    return nil
  elseif type(value) == 'table' then
    return nil, number_is_lock(key) or value.err
  elseif #value > most or not string.find(value, '^%-?[1-9]%d*$') and value ~= '0' then
    return nil, 'WRONGTYPE the value is no number'
  end
  return value
end
