-- reasserted.lua says that an agent has come back, see grace.lua, or takes it off the roll.
--
-- KEYS[1]  the clock, see incarnation.lua
-- KEYS[2]  the grace period
-- KEYS[3]  the roll, see incarnation.lua
-- ARGV[1]  the agent
-- ARGV[2]  the incarnation to which it has come back, or "" if it leaves the roll
-- ARGV[3]  whose roll it is, see incarnation.lua
-- Then the entries of the agent on the roll, if it leaves. The message "left <whose> <agent>" tells the others
--
-- Reply: how many microseconds are left of the grace period, or 0.

local call, pcall = redis.call, redis.pcall

--include clock.lua

--include grace.lua

local time = clock_read(KEYS[1], call('TIME'))
-- After a first write a server that is full takes others.
local left = pcall('ZREM', KEYS[3], '', unpack(ARGV, 4))
if type(left) == 'table' and string.find(left.err, 'READONLY', 1, true) then
  return left
end
if left ~= 0 and ARGV[2] == '' then
  pcall('ZADD', KEYS[3], 'INCR', -1, 'version')
  pcall('PUBLISH', 'lockagent_incarnation', 'left ' .. ARGV[3] .. ' ' .. ARGV[1])
end
local name = string.match(time.member or '', '^(%S+) .*~$')
if name and (name == ARGV[2] or ARGV[2] == '') then
  call('ZADD', KEYS[2], '0', ARGV[1]) -- also if nobody has told that it is to come
end
return grace_left(KEYS[1], time.member, time.last, time.server) or 0
