-- turn.lua is a part of scripts that release. turns[i + 1] is the number of passes of lock i.

-- Reports whether it is the turn of the outsiders, and counts the passes until it is.
local function turn(i, queue, suffix, outsiders)
  local passes = tonumber(turns[i + 1])
  if outsiders == 0 then
    return false, passes and 1 or 0
  elseif not passes or passes >= call('ZCARD', queue) then
    return true, outsiders
  end
  return type(pcall('INCR', 'lockagent_turn' .. suffix)) == 'table', outsiders -- if it is spoilt, their turn sets it anew
end
