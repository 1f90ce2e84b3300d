-- acquire.lua tries once to begin a tenure of each of n locks, for one agent.
--
-- KEYS[i]         a lock: a hash with one field, the tenure that has it
-- KEYS[n+i]       its last token, if the clock alone does not tell
-- KEYS[2n+1]      the clock: a time in microseconds after that of all tokens but those
--                 that are kept for a lock
-- KEYS[2n+2], [2n+3]  what the agent released in even and in odd minutes, see release.lua
-- KEYS[2n+4]      the incarnation of the database; none on a Cluster
-- ARGV[5i-4]      the tenure: "<agent>:<number>"
-- ARGV[5i-3]      the number of the tenure, with 19 digits
-- ARGV[5i-2]      the lease in ms
-- ARGV[5i-1]      how many tokens
-- ARGV[5i]        the floor: a token that has been used
-- ARGV[5n+1]      the Store, if there are more arguments: each is the i of a lock whose
--                 queue the tenure asks for a place in, or -i if it may have one
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
local few_tokens = 8 -- that a lock may have without a memory of its own

-- What is seldom needed is made where it is needed: functions, tables and formatted
-- numbers cost about as much as commands do. Numbers are passed to commands as they are,
-- which makes 17 digits of them.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local n = #KEYS - 3
n = (n - n % 2) / 2

-- One command asks about all locks.
local strings = call('MGET', unpack(KEYS, n + 1))
local even = call('HMGET', KEYS[2 * n + 2], unpack(KEYS, 1, n))
local odd = call('HMGET', KEYS[2 * n + 3], unpack(KEYS, 1, n))
local all_free, granted = false, nil
if n > 1 then
  all_free = call('EXISTS', unpack(KEYS, 1, n)) == 0
  granted = {} -- the last token, by lock: a lock may be among the n twice
end

local incarnation = ''
if #KEYS == 2 * n + 4 then
  incarnation = strings[n + 4]
  if not incarnation then
    local run = string.match(call('INFO', 'server'), 'run_id:(%x+)') or ''
    incarnation = string.format('%.0f.%s', now, string.sub(run, 1, 16)) -- as incarnation.lua does
    call('SET', KEYS[2 * n + 4], incarnation)
  end
end

-- The tokens of this script begin where the clock shows that those of the last one have
-- ended, also if the time has been set back since. So locks that need few tokens need no
-- memory of their own. The clock must not run ahead of the time for that.
local clock, next_clock, clock_is_kept = now, now + few_tokens, false
local kept_clock = tonumber(strings[n + 1] or 0)
if not kept_clock then
  return redis.error_reply('ERR ' .. KEYS[2 * n + 1] .. ' is no number')
elseif kept_clock > now then
  clock = kept_clock
  next_clock = clock + (clock < now + 1000 and few_tokens or 1)
end

-- The queue of a lock is two keys: its tenures by their arrival, and for each of them
-- the tokens and the Store, as "<tokens>:<store>". Another key tells that there are
-- queues at all, so that nobody looks for one as long as there are none.
local asks, placed, queue
local store = ARGV[5 * n + 1]
if store then
  asks, placed = {}, {}
  for j = 5 * n + 2, #ARGV do
    local i = tonumber(ARGV[j])
    asks[i], placed[-i] = true, true
  end
  queue = function(lock)
    if string.find(lock, '{', 1, true) then
      return 'lockagent_queue::' .. lock, 'lockagent_places::' .. lock
    end
    return 'lockagent_queue:{' .. lock .. '}', 'lockagent_places:{' .. lock .. '}'
  end
end

local reply, size = {now, incarnation}, 2
for i = 1, n do
  local lock, a = KEYS[i], 5 * i
  local tenure, number = ARGV[a - 4], ARGV[a - 3]

  local left, busy, holder, err = -2, false, '', nil
  if not all_free or granted[lock] then
    left = call('PTTL', lock)
    if left ~= -2 then
      local fields = pcall('HKEYS', lock)
      err, busy = fields.err, true
      for _, field in ipairs(fields) do
        if field == tenure then
          busy = false
          break
        elseif field ~= 'mode' and holder == '' then -- which a read/write lock has beside its holders
          holder = field
        end
      end
    end
  end

  local first, floor, known = clock, ARGV[a], tonumber(granted and granted[lock] or strings[i] or 0)
  if not known then
    known, err = 0, err or 'ERR ' .. KEYS[n + i] .. ' is no number'
  elseif known + 1 > first then
    first = known + 1
  end
  if floor ~= '0' and floor + 1 > first then
    first = floor + 1
  end
  local last = first + ARGV[a - 1] - 1

  -- A record begins with a number of 19 digits, because Lua counts up to 2^53 only, and
  -- goes on after it: so it is greater than the number itself, and than smaller ones.
  if (even[i] and number < even[i]) or (odd[i] and number < odd[i]) then
    reply[size + 1] = -1
    size = size + 1
  elseif err then
    reply[size + 1], reply[size + 2] = -3, err
    size = size + 2
  elseif busy then
    local queued = false
    if store and asks[i] then
      local order, places = queue(lock)
      -- Unless the server is full, or a key is spoilt.
      queued = type(pcall('HSET', places, tenure, ARGV[a - 1] .. ':' .. store)) ~= 'table' and
        type(pcall('ZADD', order, 'NX', now, tenure)) ~= 'table'
      if queued then
        call('SET', 'lockagent_queues', '1', 'PX', queue_retention)
        call('PEXPIRE', order, queue_retention)
        call('PEXPIRE', places, queue_retention)
      end
    elseif store and placed[i] then
      queued = type(pcall('ZSCORE', (queue(lock)), tenure)) == 'string'
    end
    reply[size + 1], reply[size + 2], reply[size + 3] = queued and 2 or 0, left, holder
    size = size + 3
  elseif first > greatest_token - ARGV[a - 1] + 1 then -- beyond 2^53 a sum is not exact
    reply[size + 1] = -2
    size = size + 1
  else
    if not clock_is_kept then
      call('SET', KEYS[2 * n + 1], next_clock)
      clock_is_kept = true
    end
    if last >= next_clock then
      -- It may be forgotten only when the clock has passed it.
      call('SET', KEYS[n + i], last, 'PX', token_retention + math.max(0, math.floor((last - now) / 1000)))
    end
    call('HSET', lock, tenure, '1')
    if left < ARGV[a - 2] + 0 then
      call('PEXPIRE', lock, ARGV[a - 2])
    end
    if store and (asks[i] or placed[i]) then
      local order, places = queue(lock)
      pcall('ZREM', order, tenure)
      pcall('HDEL', places, tenure)
    end
    if granted then
      granted[lock] = last
    end
    reply[size + 1], reply[size + 2] = 1, first
    size = size + 2
  end
end
return reply
