-- request.lua is a part of scripts that acquire: it reads what acquire.lua is called with.
local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local seen = call('TIME')
local at = seen[1] .. string.sub('00000' .. seen[2], -6)
local n = (#keys - 1) / 2
local per = #args == 2 + 2 * n and 2 or 3
