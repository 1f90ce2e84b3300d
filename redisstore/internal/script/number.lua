-- number.lua is a part of the scripts for semaphores and latches. It needs holders.lua before it.

-- Returns the number that a key has, as a text of at most so many bytes, or nil if there is no key. It also returns the text
-- of an error if the key has something else.
local function number_of(key, most)
  local value = pcall('GETRANGE', key, '0', '-1')
  if value == '' and pcall('EXISTS', key) == 0 then
    return nil
  end
  if type(value) == 'table' then
    local err, holder, count, _, mode = holders(key)
    local kind = holder and (mode and 'readwrite' or kind_of_holder(holder, count) or 'plain')
    return nil, err or kind and 'KIND ' .. kind or value.err
  elseif #value > most or not string.find(value, '^%-?[1-9]%d*$') and value ~= '0' then
    return nil, 'WRONGTYPE the value is no number'
  end
  return value
end
