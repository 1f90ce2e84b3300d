-- calls.lua is a part of other scripts.

-- How often the server was asked for a command.
local function calls_of(command)
  local stats = pcall('INFO', 'commandstats')
  return string.match(type(stats) == 'string' and stats or '', 'cmdstat_' .. command .. ':calls=(%d+)') or '0'
end
