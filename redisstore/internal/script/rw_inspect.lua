-- rw_inspect.lua is inspect.lua for a read/write lock. It tells the first of those that share the lock.

local call, pcall = redis.call, redis.pcall

--include rw.lua

local seen, lock = call('TIME'), rw_lock(KEYS[1], own_suffix(KEYS[1]), nil)
local err, mode, list = rw_look(lock, {server = seen[1] * 1000000 + seen[2]}, true)
if err then
  return redis.error_reply(err)
elseif not mode then
  return ''
end
local count = call('HMGET', lock.name, list[1])[1]
return call('PTTL', lock.name) .. ' ' .. count .. ' ' .. rw_tenure(list[1])
