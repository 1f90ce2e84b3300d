-- renew.lua starts the leases of many tenures anew.
--
-- KEYS[i]      a lock: a hash with one field, the tenure that has it
-- ARGV[2*i-1]  the tenure: "<agent>:<number>"
-- ARGV[2*i]    its lease in ms
--
-- Reply: {now, held, held, ...} with the time in microseconds and a 1 or a 0 for
-- each lock, in order. A lease is never shortened.

local time = redis.call('TIME')
local reply = {time[1] * 1000000 + time[2]}
for i, lock in ipairs(KEYS) do
  local tenure, lease = ARGV[2 * i - 1], ARGV[2 * i]
  -- pcall, because a key that is no lock must not fail the others.
  if redis.pcall('HEXISTS', lock, tenure) == 1 then
    if redis.call('PTTL', lock) < tonumber(lease) then
      redis.call('PEXPIRE', lock, lease)
    end
    reply[i + 1] = 1
  else
    reply[i + 1] = 0
  end
end
return reply
