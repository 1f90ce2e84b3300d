-- release.lua ends a tenure of each of n locks, or withdraws one that has not begun.
--
-- KEYS[i]     a lock: a hash with one field, the tenure that has it
-- KEYS[n+i]   the last tenure of the lock that the agent released, as
--             "<number>:<released>:<time>:<others>", released being 2 if the lock was
--             passed on
-- KEYS[2n+1]  is there if some lock has a queue; none where there are no queues
-- ARGV[1]     how to wake those who wait: PUBLISH or SPUBLISH
-- ARGV[1+i]   the channel of the lock
-- The others are three for each lock:
--   the tenure: "<agent>:<number>"
--   the number of the tenure
--   how many of the channel's subscribers are this agent itself, or -1 if the
--   subscribers cannot be counted
--
-- Reply: {now, ...} with the time in microseconds, and for each lock, in order, one
-- of
--   1, others                  released, and how many others were woken, or -1 if
--                              that is not known
--   0                          the tenure did not have the lock
--   2, released, time, others  the same call was made before, and this was its reply
--   3                          released, and passed on
--   -1, text                   an error
--
-- What is wrong with one lock does not concern the others. The keys of a queue, see
-- acquire.lua, are none of KEYS, because most locks have none: that is why there are
-- no queues on a Cluster.

local release_retention = '60000' -- in ms
local token_retention = 3600000 -- in ms
local greatest_token = 9007199254740991
local pass_lease = '2000' -- in ms

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

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local n = math.floor(#KEYS / 2)

-- One command reads all records, because the cost of a script is in its commands.
-- What is written meanwhile counts more: a lock may be among the n twice.
local records, written = redis.call('MGET', unpack(KEYS, n + 1)), {}

-- Where there are queues, one command counts all subscribers: how many has channel i
-- is at 2i.
local counts = records[n + 1] and redis.call('PUBSUB', 'NUMSUB', unpack(ARGV, 2, n + 1))

-- Numbers are compared as text, see acquire.lua.
local function later(number, last)
  return #number > #last or (#number == #last and number > last)
end

local function key(prefix, lock)
  if string.find(lock, '{', 1, true) then
    return prefix .. '::' .. lock
  end
  return prefix .. ':{' .. lock .. '}'
end

-- pass gives a lock that is free to the tenure that has waited longest, if nobody
-- waits outside of the queue.
local function pass(lock, waiting)
  local order, places = key('lockagent_queue', lock), key('lockagent_places', lock)
  if waiting > redis.call('ZCARD', order) then
    return false
  end
  while true do
    local tenure = redis.call('ZPOPMIN', order)[1]
    if not tenure then
      return false
    end
    local agent, number = string.match(tenure, '^(.*):(%d+)$')
    local tokens, store = string.match(redis.call('HGET', places, tenure) or '', '^(%d+):(.*)$')
    redis.call('HDEL', places, tenure)
    local token, done = key('lockagent_token', lock), key('lockagent_done:' .. agent, lock)
    local known = redis.call('MGET', token, done, 'lockagent_incarnation')
    local finished = string.match(written[done] or known[2] or '', '^%d*')
    local first = math.max((known[1] or 0) + 1, now)
    if tokens and later(number, finished) and first <= greatest_token - tokens + 1 then
      local message = table.concat({tenure, text(first), tokens, text(now), known[3] or '', lock}, ' ')
      local receivers = redis.pcall('PUBLISH', 'lockagent_pass:' .. store, message)
      if type(receivers) == 'number' and receivers > 0 then
        local last = first + tokens - 1
        redis.call('SET', token, text(last), 'PX', text(token_retention + math.max(0, math.floor((last - now) / 1000))))
        redis.call('HSET', lock, tenure, '1')
        redis.call('PEXPIRE', lock, pass_lease)
        return true
      end
    end
  end
end

local function release(i, lock, done, record, channel, tenure, number, own)
  local removed = redis.pcall('HDEL', lock, tenure)
  if type(removed) == 'table' then
    -- What is no lock is not held by the tenure: that is no error here, for a
    -- tenure that could not begin is withdrawn all the same.
    if not string.find(removed.err, 'WRONGTYPE', 1, true) then
      return -1, removed.err
    end
    removed = 0
  end

  record = written[done] or record
  local last = ''
  if record then
    last = string.match(record, '^%d+')
  end
  local released, others = removed, 0
  if removed == 1 then
    local subscribed = counts and counts[2 * i] or 0
    if subscribed > 0 and pass(lock, subscribed - own) then
      released = 2
    else
      local receivers = redis.pcall(ARGV[1], channel, '0')
      others = -1
      -- A user who may not publish there has released the lock all the same.
      if own ~= '-1' and type(receivers) == 'number' then
        others = math.max(0, receivers - own)
      end
    end
  elseif last == number then
    local first_released, first_time, first_others = string.match(record, ':(%d):(%d+):(%-?%d+)$')
    return 2, tonumber(first_released), tonumber(first_time), tonumber(first_others)
  elseif counts then
    redis.call('ZREM', key('lockagent_queue', lock), tenure)
    redis.call('HDEL', key('lockagent_places', lock), tenure)
  end

  -- A later tenure may have been withdrawn before: that must not be forgotten.
  if later(number, last) then
    record = number .. ':' .. text(released) .. ':' .. text(now) .. ':' .. text(others)
    local set = redis.pcall('SET', done, record, 'PX', release_retention)
    if set.err and removed == 0 then
      return -1, set.err
    end
    written[done] = record
  end
  if released == 2 then
    return 3
  elseif released == 1 then
    return 1, others
  end
  return 0
end

local reply, size = {now}, 1
local function add(value)
  if value then
    size = size + 1
    reply[size] = value
  end
end
for i = 1, n do
  local code, first, second, third = release(i, KEYS[i], KEYS[n + i], records[i], ARGV[1 + i], unpack(ARGV, n + 3 * i - 1, n + 3 * i + 1))
  add(code)
  add(first)
  add(second)
  add(third)
end
return reply
