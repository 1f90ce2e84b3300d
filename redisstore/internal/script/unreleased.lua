-- unreleased.lua is a part of scripts that release.

-- Says why a tenure was not released.
local function unreleased(lock, tenure, undone)
  local err = type(undone) == 'table' and undone.err or holders(lock, tenure)
  return err and 'e ' .. err or 'n'
end
