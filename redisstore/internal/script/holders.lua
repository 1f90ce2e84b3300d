-- holders.lua is a part of other scripts: a function that finds the holder of a lock.

--include clock.lua

--include kinds.lua

-- A lock is a hash. Each field is a holder: "<id>:<number>", "<id>:<number>:write" or "<id>:<number>:<transaction>".
-- Its value is the hold count, or tells the kind, see kinds.lua. A read/write lock of Redisson also has the field
-- "mode". The function looks at one page of a large hash.
--
-- It returns only the text of an error if the key is no lock. The error names the kind of the key, if that can be seen.
-- Otherwise it returns nil, the first holder, the hold count of that holder, whether the tenure is a holder, and the
-- mode. The first holder is nil if the key is absent. Then follow all fields with their values, and whether these are
-- all that the hash has.
local function holders(lock, tenure)
  local page = pcall('HSCAN', lock, '0', 'COUNT', '16')
  if page.err then
    local text = string.find(page.err, 'WRONGTYPE', 1, true) and pcall('GETRANGE', lock, '0', '0')
    local used = type(text) == 'string' and use_of_number(lock) -- of a list, nothing beside it tells what it is
    return used and 'KIND ' .. used or page.err
  end
  local fields, holder, count, own, mode = page[2], nil, nil, false, nil
  local sound = page[1] == '0' or #fields > 0
  for f = 1, #fields, 2 do
    local field, value = fields[f], fields[f + 1]
    if field == 'mode' then
      mode = value
      sound = sound and (value == 'read' or value == 'write')
    else
      local tail = string.match(field, '^[%w_%-]+:%-?%d+(.*)$')
      sound = sound and tail and (tail == '' or string.find(tail, '^:%w+$')) and string.find(value, '^[1-9]%d*$')
      holder, count = holder or field, count or value
      own = own or field == tenure
    end
  end
  if not sound or mode and not holder then
    return 'WRONGTYPE the hash is no lock'
  end
  return nil, holder, count, own, mode, fields, page[1] == '0'
end

-- Says in a reply why a tenure was not released, or nothing if it counts as released. undone is what HDEL has replied,
-- and flags are those of release.lua.
local function not_held(time, lock, who, undone, flags)
  local err, _, _, _, _, fields = holders(lock, who)
  err = type(undone) == 'table' and undone.err or err
  if err then
    return 'e ' .. err
  end
  return has_foreign(fields, false) and 'n' or clock_not_there(time, flags)
end
