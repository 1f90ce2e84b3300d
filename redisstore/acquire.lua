-- acquire.lua tries once to begin a tenure of each of n locks.
--
-- KEYS[i]      a lock: a hash with one field, the tenure that has it
-- KEYS[n+i]    its last token
-- KEYS[2n+i]   the last tenure of the lock that the agent released, see release.lua
-- KEYS[3n+1]   the incarnation of the database; none on a Cluster
-- ARGV[5i-4]   the tenure: "<agent>:<number>"
-- ARGV[5i-3]   the number of the tenure
-- ARGV[5i-2]   the lease in ms
-- ARGV[5i-1]   how many tokens
-- ARGV[5i]     the floor: a token that has been used
-- ARGV[5n+1]   the Store, if there are more arguments: each is the i of a lock whose
--              queue the tenure asks for a place in, or -i if it may have one
--
-- Reply: {now, incarnation, ...} with the time in microseconds, an incarnation that
-- is '' on a Cluster, and for each lock, in order, one of
--   1, first token            granted
--   0, ms left or -1, holder  another tenure has the lock
--   2, ms left or -1, holder  the same, and the tenure has a place in the queue
--   -1                        the tenure was released before
--   -2                        not enough tokens are left
--   -3, text                  an error
--
-- A lock that was not granted has not been changed, and what is wrong with one does
-- not concern the others. An incarnation is given a name that had none.

local greatest_token = 9007199254740991
local token_retention = 3600000 -- in ms
local queue_retention = 300000 -- in ms

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
local n = math.floor(#KEYS / 3)

-- One command reads all strings, because the cost of a script is in its commands.
-- What is written meanwhile counts more: a lock may be among the n twice.
local strings, written = redis.call('MGET', unpack(KEYS, n + 1)), {}

local incarnation = ''
if #KEYS > 3 * n then
  incarnation = strings[2 * n + 1]
  if not incarnation then
    local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
    incarnation = string.format('%.0f.%s', now, string.sub(run, 1, 16)) -- as incarnation.lua does
    redis.call('SET', KEYS[3 * n + 1], incarnation)
  end
end

local asks, placed, store = {}, {}, ARGV[5 * n + 1]
for j = 5 * n + 2, #ARGV do
  local i = tonumber(ARGV[j])
  asks[i], placed[-i] = true, true
end

-- The queue of a lock is two keys: its tenures by their arrival, and for each of them
-- the tokens and the Store, as "<tokens>:<store>". Another key tells that there are
-- queues at all, so that nobody looks for one as long as there are none.
local function queue(lock)
  if string.find(lock, '{', 1, true) then
    return 'lockagent_queue::' .. lock, 'lockagent_places::' .. lock
  end
  return 'lockagent_queue:{' .. lock .. '}', 'lockagent_places:{' .. lock .. '}'
end

local function enqueue(lock, tenure, tokens)
  local order, places = queue(lock)
  local added = redis.pcall('ZADD', order, 'NX', text(now), tenure)
  if type(added) == 'table' then
    return false -- the server is full
  end
  redis.call('SET', 'lockagent_queues', '1', 'PX', queue_retention)
  redis.call('HSET', places, tenure, tokens .. ':' .. store)
  redis.call('PEXPIRE', order, queue_retention)
  redis.call('PEXPIRE', places, queue_retention)
  return true
end

local function dequeue(lock, tenure)
  local order, places = queue(lock)
  redis.call('ZREM', order, tenure)
  redis.call('HDEL', places, tenure)
end

-- Numbers of tenures go up to 2^63 and Lua's to 2^53, so they are compared as text:
-- the longer one is greater.
local function withdrawn(number, released)
  local last = string.match(released, '^%d+')
  return #number < #last or (#number == #last and number <= last)
end

local function acquire(i, lock, token, known, released, tenure, number, lease, tokens, floor)
  if released and withdrawn(number, released) then
    return -1
  end

  local left = redis.call('PTTL', lock)
  if left ~= -2 then
    local fields = redis.pcall('HKEYS', lock)
    if fields.err then
      return -3, fields.err
    end
    -- A read/write lock of another program has a field "mode" beside its holders.
    local mine, holder = false, ''
    for _, field in ipairs(fields) do
      if field == tenure then
        mine = true
      elseif field ~= 'mode' and holder == '' then
        holder = field
      end
    end
    if not mine then
      local queued = asks[i] and enqueue(lock, tenure, tokens) or placed[i] and redis.call('ZSCORE', (queue(lock)), tenure)
      return queued and 2 or 0, left, holder
    end
  end

  -- A clock is part of the tokens, so they grow even if the last one is forgotten.
  local first = math.max((written[token] or known or 0) + 1, floor + 1, now)
  -- Not the sum is compared: beyond 2^53 it would not be exact.
  if first > greatest_token - tokens + 1 then
    return -2
  end
  local last = first + tokens - 1
  -- The last token may be forgotten only when the clock has passed it.
  local keep = token_retention + math.max(0, math.floor((last - now) / 1000))
  local set = redis.pcall('SET', token, text(last), 'PX', text(keep))
  if set.err then
    return -3, set.err
  end
  written[token] = last

  redis.call('HSET', lock, tenure, '1')
  if left < tonumber(lease) then
    redis.call('PEXPIRE', lock, lease)
  end
  if asks[i] or placed[i] then
    dequeue(lock, tenure)
  end
  return 1, first
end

local reply, size = {now, incarnation}, 2
local function add(value)
  if value then
    size = size + 1
    reply[size] = value
  end
end
for i = 1, n do
  local code, first, second = acquire(i, KEYS[i], KEYS[n + i], strings[i], strings[n + i], unpack(ARGV, 5 * i - 4, 5 * i))
  add(code)
  add(first)
  add(second)
end
return reply
