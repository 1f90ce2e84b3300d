-- break.lua frees a lock, whatever tenure or program has it. It wakes the waiters, and sends the
-- message "broken <tenure> <at> <operator> <lock>" to the agent of the tenure. The lock may also be a fair lock
-- of Redisson. A key that is no lock stays. So does a hash whose holder has an id
-- without a UUID, for a map of another program may look like that: {"user:17": 3}.
--
-- KEYS[1]  the lock: a hash
-- ARGV[1]  how messages travel, see release.lua
-- ARGV[2]  the name of the clock, see acquire.lua
-- ARGV[3]  the suffix that Redisson gives to the keys and channels of the lock, such as ":{a}"
-- ARGV[4]  who breaks the lock, as one word
-- ARGV[5]  the kind of the lock that the caller means
-- ARGV[6]  the incarnation that the agent knows, see acquire.lua
--
-- Reply: "<at> 1" if the lock was held, or "<at> 0". It is an error if the key is no lock. If the holder may come back,
-- the error begins with "GRACE" or "LOOK", see grace.lua.

local call, pcall = redis.call, redis.pcall
local lock, room, suffix = KEYS[1], ARGV[1], ARGV[3]

--include broken.lua

local time, reply = broken(lock, ARGV, '')
if not time then
  return reply
end
local channel = 'redisson_lock__channel' .. suffix
ways_publish(room, channel, '0')
-- Those who wait for a fair lock each have a channel, and a time in ms until which they wait.
local front = pcall('LRANGE', 'redisson_lock_queue' .. suffix, 0, 7)
for _, waiter in ipairs(front) do
  local deadline = pcall('ZSCORE', 'redisson_lock_timeout' .. suffix, waiter)
  if type(deadline) ~= 'string' or deadline * 1000 > time.server then
    ways_publish(room, channel .. ':' .. waiter, '0')
    break
  end
end
return reply
