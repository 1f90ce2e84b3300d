-- inspect.lua finds the holder of a lock. It changes nothing.
--
-- KEYS[1]  the lock: a hash
-- ARGV[1]  the kind of the lock that the caller means
--
-- Reply: "" if the lock is free, or "<ms left of the lease, or -1> <hold count> <holder>". It is an
-- error if the key is no lock.

local call, pcall = redis.call, redis.pcall

--include holders.lua

local err, holder, count, _, mode = holders(KEYS[1])
if err or mode then
  return redis.error_reply(err or 'KIND readwrite')
elseif not holder then
  return ''
end
local kind = kind_of_holder(holder, count)
if kind and kind ~= ARGV[1] then
  return redis.error_reply('KIND ' .. kind)
end
return call('PTTL', KEYS[1]) .. ' ' .. (kind and '1' or count) .. ' ' .. holder
