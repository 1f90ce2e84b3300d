-- release.lua ends a tenure of each of n locks, or withdraws one that has not begun.
--
-- KEYS[i]     a lock: a hash with one field, the tenure that has it
-- KEYS[n+i]   the last tenure of the lock that the agent released, as
--             "<number>:<released>:<time>:<others>"
-- ARGV[1]     how to wake those who wait: PUBLISH or SPUBLISH
-- ARGV[4i-2]  the tenure: "<agent>:<number>"
-- ARGV[4i-1]  the number of the tenure
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

-- Numbers are made text once: it takes as long as a command.
local texts = {}
local function text(number)
  local known = texts[number]
  if not known then
    known = string.format('%.0f', number)
    texts[number] = known
  end
  return known
end

local release_retention = '60000' -- in ms

local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local n = #KEYS / 2

-- One command reads all records, because the cost of a script is in its commands.
-- What is written meanwhile counts more: a lock may be among the n twice.
local records, written = redis.call('MGET', unpack(KEYS, n + 1)), {}

local function release(lock, key, record, tenure, number, channel, own)
  local removed = redis.pcall('HDEL', lock, tenure)
  if type(removed) == 'table' then
    -- What is no lock is not held by the tenure: that is no error here, for a
    -- tenure that could not begin is withdrawn all the same.
    if not string.find(removed.err, 'WRONGTYPE', 1, true) then
      return -1, removed.err
    end
    removed = 0
  end

  record = written[key] or record
  local last = ''
  if record then
    last = string.match(record, '^%d+')
  end
  local others = 0
  if removed == 1 then
    local receivers = redis.pcall(ARGV[1], channel, '0')
    others = -1
    -- A user who may not publish there has released the lock all the same.
    if own ~= '-1' and type(receivers) == 'number' then
      others = math.max(0, receivers - own)
    end
  elseif last == number then
    local released, at, woken = string.match(record, ':(%d):(%d+):(%-?%d+)$')
    return 2, tonumber(released), tonumber(at), tonumber(woken)
  end

  -- A later tenure may have been withdrawn before: that must not be forgotten.
  -- Numbers are compared as text, see acquire.lua.
  if #number > #last or (#number == #last and number > last) then
    record = number .. ':' .. text(removed) .. ':' .. now .. ':' .. text(others)
    local set = redis.pcall('SET', key, record, 'PX', release_retention)
    if set.err and removed == 0 then
      return -1, set.err
    end
    written[key] = record
  end
  if removed == 1 then
    return 1, others
  end
  return 0
end

local reply, size = {tonumber(now)}, 1
local function add(value)
  if value then
    size = size + 1
    reply[size] = value
  end
end
for i = 1, n do
  local code, first, second, third = release(KEYS[i], KEYS[n + i], records[i], unpack(ARGV, 4 * i - 2, 4 * i + 1))
  add(code)
  add(first)
  add(second)
  add(third)
end
return reply
