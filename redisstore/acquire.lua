-- acquire.lua tries once to begin a tenure.
--
-- KEYS[1]  the lock: a hash with one field, the tenure that has it
-- KEYS[2]  the last token of the lock
-- KEYS[3]  the last tenure of the lock that this agent released
-- KEYS[4]  the incarnation of the database; none on a Cluster
-- ARGV[1]  the tenure: "<agent>:<number>"
-- ARGV[2]  the number of the tenure
-- ARGV[3]  the lease in ms
-- ARGV[4]  how many tokens
-- ARGV[5]  the floor: a token that has been used
-- ARGV[6]  for how long to keep the last token, in ms
-- ARGV[7]  the greatest token there is
--
-- Replies, in which now is in microseconds and incarnation '' on a Cluster:
--   {1, now, incarnation, first token}          granted
--   {0, now, incarnation, ms left or -1, holder} another tenure has the lock
--   {-1, now}                                   the tenure was released before
--   {-2, now}                                   not enough tokens are left
--
-- Nothing has been changed unless the lock was granted, except that an
-- incarnation is given a name that had none.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Numbers of tenures go up to 2^63 and Lua's to 2^53, so they are compared as
-- text: the longer one is greater.
local released = redis.call('GET', KEYS[3])
if released then
  local last, number = string.match(released, '^%d+'), ARGV[2]
  if #number < #last or (#number == #last and number <= last) then
    return {-1, now}
  end
end

local mine = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
local left = redis.call('PTTL', KEYS[1])

local incarnation = ''
if KEYS[4] then
  incarnation = redis.call('GET', KEYS[4])
  if not incarnation then
    local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
    incarnation = string.format('%.0f.%s', now, string.sub(run, 1, 16)) -- as incarnation.lua does
    redis.call('SET', KEYS[4], incarnation)
  end
end

if not mine and left ~= -2 then
  -- A read/write lock of another program has a field "mode" beside its holders.
  local holder = ''
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if field ~= 'mode' then
      holder = field
      break
    end
  end
  return {0, now, incarnation, left, holder}
end

-- A clock is part of the tokens, so they grow even if the last one is forgotten.
local tokens, last = tonumber(ARGV[4]), tonumber(redis.call('GET', KEYS[2]) or 0)
local first = math.max(last + 1, ARGV[5] + 1, now)
-- Not the sum is compared: beyond 2^53 it would not be exact.
if first > ARGV[7] - tokens + 1 then
  return {-2, now}
end
last = first + tokens - 1
-- The last token may be forgotten only when the clock has passed it.
local keep = tonumber(ARGV[6]) + math.max(0, math.ceil((last - now) / 1000))
redis.call('SET', KEYS[2], string.format('%.0f', last), 'PX', string.format('%.0f', keep))

redis.call('HSET', KEYS[1], ARGV[1], 1)
if left < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return {1, now, incarnation, first}
