-- release.lua ends a tenure of each of n locks, or withdraws one that has not begun,
-- for one agent.
--
-- KEYS[i]     a lock: a hash with one field, the tenure that has it
-- KEYS[n+1], [n+2]  what the agent released in even and in odd minutes: hashes of the
--             last tenure by lock, as "<number>:<released>:<time>:<others>", with the
--             minute in the field ''
-- ARGV[1]     how to wake those who wait: PUBLISH or SPUBLISH
-- ARGV[4i-2]  the tenure: "<agent>:<number>"
-- ARGV[4i-1]  the number of the tenure, with 19 digits
-- ARGV[4i]    the channel of the lock
-- ARGV[4i+1]  how many of the channel's subscribers are this agent itself, or -1 if
--             the subscribers cannot be counted
--
-- Reply: {now, ...} with the time in microseconds, and for each lock, in order, one
-- of
--   1, others                  released, and how many others were woken, or -1 if
--                              that is not known
--   0                          the tenure did not have the lock
--   2, released, time, others  the same call was made before, and this was its reply
--   -1, text                   an error
--
-- What is wrong with one lock does not concern the others.

local release_retention = 60 -- in s, at least

local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local n = #KEYS - 2

-- What was released in the minute before the last is forgotten when its hash is needed.
local minute = math.floor(time[1] / release_retention)
local recent, before = KEYS[n + 1 + minute % 2], KEYS[n + 1 + (minute + 1) % 2]
minute = string.format('%.0f', minute)
local records = call('HMGET', recent, '', unpack(KEYS, 1, n))
if records[1] ~= minute then
  call('UNLINK', recent) -- it may be large
  pcall('HSET', recent, '', minute)
  call('EXPIRE', recent, 3 * release_retention)
  records = {}
end
local known = {} -- of this script, by lock: a lock may be among the n twice
local fields, size = {recent}, 1
local reply, length = {tonumber(now)}, 1

-- What a record says of a tenure, if it is about that one.
local function recall(record, number)
  local last, released, at, others = string.match(record or '', '^(%d+):(%d):(%d+):(%-?%d+)$')
  if last == number then
    return tonumber(released), tonumber(at), tonumber(others)
  end
end

-- Answers a call for a tenure that did not have the lock.
local function withdraw(lock, number, record)
  local released, at, others = recall(record, number)
  if not released then
    released, at, others = recall(call('HGET', before, lock), number)
  end
  if released then
    reply[length + 1], reply[length + 2], reply[length + 3], reply[length + 4] = 2, released, at, others
    length = length + 4
    return
  end
  if not record or number > record then
    record = number .. ':0:' .. now .. ':0'
    local kept = pcall('HSET', recent, lock, record)
    if type(kept) == 'table' then
      reply[length + 1], reply[length + 2] = -1, kept.err
      length = length + 2
      return
    end
    known[lock] = record
  end
  reply[length + 1] = 0
  length = length + 1
end

local none_woken = ':1:' .. now .. ':0'
for i = 1, n do
  local lock, a = KEYS[i], 4 * i
  local number = ARGV[a - 1]
  local record = known[lock] or records[i + 1]
  local removed = pcall('HDEL', lock, ARGV[a - 2])
  if removed == 1 then
    local others, own = pcall(ARGV[1], ARGV[a], '0'), ARGV[a + 1]
    if own == '-1' or type(others) ~= 'number' then
      others = -1 -- a user who may not publish there has released the lock all the same
    elseif others > 0 then
      others = math.max(0, others - own)
    end
    -- A later tenure may have been withdrawn before: that must not be forgotten. A record
    -- is greater than its number, see acquire.lua.
    if not record or number > record then
      record = number .. (others == 0 and none_woken or ':1:' .. now .. ':' .. others)
      known[lock] = record
      fields[size + 1], fields[size + 2] = lock, record
      size = size + 2
    end
    reply[length + 1], reply[length + 2] = 1, others
    length = length + 2
  elseif removed == 0 or string.find(removed.err, 'WRONGTYPE', 1, true) then
    -- What is no lock is not held by the tenure: that is no error here, for a
    -- tenure that could not begin is withdrawn all the same.
    withdraw(lock, number, record)
  else
    reply[length + 1], reply[length + 2] = -1, removed.err
    length = length + 2
  end
end
if size > 1 then
  pcall('HSET', unpack(fields)) -- what cannot be remembered has been released all the same
end
return reply
