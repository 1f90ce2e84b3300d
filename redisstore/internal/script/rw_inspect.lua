-- rw_inspect.lua is inspect.lua for a read/write lock. It tells the first of those that share the lock.

local call, pcall = redis.call, redis.pcall
local lock, time = KEYS[1], redis.call('TIME')
local server = time[1] * 1000000 + time[2]

--include holders.lua

--include rw.lua

local suffix = own_suffix(lock)
local err, mode, list = look(lock, suffix, true)
if err then
  return redis.error_reply(err)
elseif not mode then
  return ''
end
local count = call('HMGET', lock, list[1])[1]
return call('PTTL', lock) .. ' ' .. count .. ' ' .. tenure_of(list[1])
