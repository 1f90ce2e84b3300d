-- release.lua ends a tenure, or withdraws one that has not begun.
--
-- KEYS[1]  the lock: a hash with one field, the tenure that has it
-- KEYS[2]  the last tenure of the lock that this agent released, as
--          "<number>:<released>:<time>:<others>"
-- ARGV[1]  the tenure: "<agent>:<number>"
-- ARGV[2]  the number of the tenure
-- ARGV[3]  for how long to keep KEYS[2], in ms
-- ARGV[4]  how to wake those who wait: PUBLISH or SPUBLISH
-- ARGV[5]  the channel of the lock
-- ARGV[6]  how many of the channel's subscribers are this agent itself, or -1 if
--          the subscribers cannot be counted
--
-- Reply: {released, time, others}, where released is 1 or 0, time is in
-- microseconds, and others is how many others were woken, or -1 if that is not
-- known. A repeated call has the reply of the first.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local last, first_released, first_time, first_others
local record = redis.call('GET', KEYS[2])
if record then
  last, first_released, first_time, first_others = string.match(record, '^(%d+):(%d):(%d+):(%-?%d+)$')
end

-- What is no lock is not held by the tenure: that is no error here, for a tenure
-- that could not begin is withdrawn all the same.
local held = redis.pcall('HEXISTS', KEYS[1], ARGV[1]) == 1

if not held and last == ARGV[2] then
  return {tonumber(first_released), tonumber(first_time), tonumber(first_others)}
end

local released, others = 0, 0
if held then
  -- First what a user may not be permitted to do, so that it is all or nothing.
  local receivers = redis.call(ARGV[4], ARGV[5], '0')
  redis.call('HDEL', KEYS[1], ARGV[1])
  released = 1
  if ARGV[6] == '-1' then
    others = -1
  else
    others = math.max(0, receivers - ARGV[6])
  end
end

-- A later tenure may have been withdrawn before: that must not be forgotten.
-- Numbers are compared as text, see acquire.lua.
local number = ARGV[2]
if not last or #number > #last or (#number == #last and number > last) then
  redis.call('SET', KEYS[2], string.format('%s:%d:%.0f:%d', number, released, now, others), 'PX', ARGV[3])
end
return {released, now, others}
