-- fair_break.lua frees a fair lock, whatever tenure or program has it. It hands the lock on to the first
-- place, see fair.lua, and sends the message of break.lua to the agent of the tenure.
--
-- KEYS[1]  the lock: a hash
-- ARGV[1]  how messages travel, see release.lua
-- ARGV[2]  the name of the clock, see acquire.lua
-- ARGV[3]  the suffix of our own keys of the lock, such as ":{a}"
-- ARGV[4]  who breaks the lock, as one word
-- ARGV[5]  "fair"
-- ARGV[6]  the incarnation that the agent knows, see acquire.lua
-- ARGV[7]  the lock's channel
--
-- Reply: as that of break.lua.

local call, pcall = redis.call, redis.pcall
local room = ARGV[1]

--include broken.lua

--include fair.lua

local time, reply = broken(KEYS[1], ARGV, 'fair ')
if not time then
  return reply
end
if not fair_hand_on(fair_lock(KEYS[1], ARGV[3], room), time, '-') then
  ways_publish(room, ARGV[7], '0')
end
return reply
