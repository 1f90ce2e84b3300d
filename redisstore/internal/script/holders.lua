-- holders.lua is a part of other scripts: a function that tells who has a lock.
--
-- A lock is a hash. Its fields are holders, such as "<id>:<number>" or "<id>:<number>:write",
-- and its values are their counts of holds. A read/write lock of Redisson has a field "mode"
-- beside them. Of a large hash one page is looked at.
--
-- It returns the text of an error if the key has something else. Otherwise it returns nil,
-- the first holder, its count, whether the tenure is a holder, and the mode. There is no
-- holder if the key is absent.
local function holders(lock, tenure)
  local page = pcall('HSCAN', lock, '0', 'COUNT', '16')
  if page.err then
    return page.err
  end
  local fields, holder, count, own, mode = page[2], nil, nil, false, nil
  local sound = page[1] == '0' or #fields > 0
  for f = 1, #fields, 2 do
    local field, value = fields[f], fields[f + 1]
    if field == 'mode' then
      mode = value
      sound = sound and (value == 'read' or value == 'write')
    else
      sound = sound and string.find(field, '^%C*:%C*$') and string.find(value, '^[1-9]%d*$')
      holder, count = holder or field, count or value
      own = own or field == tenure
    end
  end
  if not sound or mode and not holder then
    return 'WRONGTYPE the hash is no lock'
  end
  return nil, holder, count, own, mode
end
