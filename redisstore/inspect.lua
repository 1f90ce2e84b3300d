-- inspect.lua tells who has a lock. It changes nothing.
--
-- KEYS[1]  the lock: a hash
--
-- Reply: {} if the lock is free, or {holder, hold count, ms left or -1}. It is an
-- error if the key is no hash.

local fields = redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  -- A read/write lock of another program has a field "mode" beside its holders.
  if fields[i] ~= 'mode' then
    return {fields[i], fields[i + 1], redis.call('PTTL', KEYS[1])}
  end
end
return {}
