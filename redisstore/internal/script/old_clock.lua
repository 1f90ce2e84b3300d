-- clock.lua is a part of other scripts: a function that tells the time. key is the name of the clock,
-- see acquire.lua.
--
-- It returns the time as a text, the entry of the clock, and the server's own time. What is spoilt
-- does not count: acquires tell of it.
local function time_of(key)
  local time, most = call('TIME'), 9007199254740991
  local entry = pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
  local ahead = pcall('GETRANGE', 'lockagent_ahead' .. string.sub(key, 16), '0', '-1')
  local server, guard = time[1] * 1000000 + time[2], tonumber(entry[2] or 0)
  local clock = server
  if type(ahead) == 'string' and string.find(ahead, '^%d+$') and server + ahead <= most then
    clock = server + ahead
  end
  return string.format('%.0f', guard <= most and math.max(clock, guard) or clock), entry, server
end
