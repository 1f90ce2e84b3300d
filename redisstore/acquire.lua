-- acquire.lua tries once to begin a tenure of each of n locks, for one agent.
--
-- KEYS[i]         a lock: a hash with one field, the tenure that has it
-- KEYS[n+i]       its last token, if the clock alone does not tell
-- KEYS[2n+1]      the clock: a time in microseconds. Tokens that are not kept for a lock
--                 are less than few_tokens greater
-- KEYS[2n+2], [2n+3]  what the agent released in even and in odd minutes, see release.lua
-- KEYS[2n+4]      the incarnation of the database; none on a Cluster
-- ARGV[1]         "<agent>:", which with its number is a tenure
-- ARGV[2]         the zeros that make 19 digits of a number
-- ARGV[3]         the least of the numbers, with 19 digits
-- ARGV[4], [5], [6]  the lease in ms, how many tokens, and the floor, which is a token that
--                 has been used: for all locks but those that have their own
-- ARGV[7]         how many have their own: m
-- ARGV[7+i]       the number of the tenure
-- The next 4m are for each of those: i, lease, tokens, floor.
-- If there are more, the next is the Store, and each of the others is the i of a lock
-- whose queue the tenure asks for a place in, or -i if it may have one.
--
-- Reply: "<now> <token> <incarnation>", with the time in microseconds, and an incarnation
-- that is empty on a Cluster, if all locks were granted with that as their first token.
-- Otherwise an array of this and, in order, for each lock of which it is not true, i and one
-- of
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
-- numbers cost about as much as commands do. So the time is text, from the beginning.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local at = time[1] .. string.sub('00000' .. time[2], -6)
local now = tonumber(at)
local n = #KEYS - 3
n = (n - n % 2) / 2

-- One command asks about all locks.
local strings = call('MGET', unpack(KEYS, n + 1))
local all_free, granted = false, nil
if n > 1 then
  all_free = call('EXISTS', unpack(KEYS, 1, n)) == 0
  granted = {} -- the last token, by lock: a lock may be among the n twice
end

-- A record of what was released begins with a number of 19 digits, because Lua counts up
-- to 2^53 only, and goes on after it: so it is greater than the number itself, and than
-- smaller ones. The field '' has the greatest number of its hash. Most tenures are
-- younger than all that were released.
local even, odd = call('HGET', KEYS[2 * n + 2], ''), call('HGET', KEYS[2 * n + 3], '')
local old = (even and even > ARGV[3]) or (odd and odd > ARGV[3])
if old then
  even = call('HMGET', KEYS[2 * n + 2], unpack(KEYS, 1, n))
  odd = call('HMGET', KEYS[2 * n + 3], unpack(KEYS, 1, n))
end

local incarnation = ''
if #KEYS == 2 * n + 4 then
  incarnation = strings[n + 4]
  if not incarnation then
    local run = string.match(call('INFO', 'server'), 'run_id:(%x+)') or ''
    incarnation = at .. '.' .. string.sub(run, 1, 16) -- as incarnation.lua does
    call('SET', KEYS[2 * n + 4], incarnation)
  end
end

-- The tokens of this script begin where the clock shows that those of the last one have
-- ended, also if the time has been set back since. So locks that need few tokens need no
-- memory of their own. The clock must not run ahead of the time for that.
local clock, clock_text, limit, limit_text = now, at, now + few_tokens, at
if strings[n + 1] then
  local after = tonumber(strings[n + 1])
  if not after then
    return redis.error_reply('ERR ' .. KEYS[2 * n + 1] .. ' is no number')
  end
  after = after + few_tokens
  if after > now then
    clock, clock_text = after, string.format('%.0f', after)
    limit = clock + (clock < now + 1000 and few_tokens or 1)
    limit_text = string.format('%.0f', limit - few_tokens)
  end
end
local clock_is_kept = false

local own, asks, placed, queue
local more = 8 + n + 4 * ARGV[7] -- where the Store is
if ARGV[7] ~= '0' then
  own = {}
  for a = 8 + n, more - 1, 4 do
    own[tonumber(ARGV[a])] = a
  end
end

-- The queue of a lock is two keys: its tenures by their arrival, and for each of them
-- the tokens and the Store, as "<tokens>:<store>". Another key tells that there are
-- queues at all, so that nobody looks for one as long as there are none.
local store = ARGV[more]
if store then
  asks, placed = {}, {}
  for a = more + 1, #ARGV do
    local i = tonumber(ARGV[a])
    asks[i], placed[-i] = true, true
  end
  queue = function(lock)
    if string.find(lock, '{', 1, true) then
      return 'lockagent_queue::' .. lock, 'lockagent_places::' .. lock
    end
    return 'lockagent_queue:{' .. lock .. '}', 'lockagent_places:{' .. lock .. '}'
  end
end

local reply, size = {at .. ' ' .. clock_text .. ' ' .. incarnation}, 1
for i = 1, n do
  local lock, tenure, lease, tokens, floor = KEYS[i], ARGV[1] .. ARGV[7 + i], ARGV[4], ARGV[5], ARGV[6]
  if own and own[i] then
    lease, tokens, floor = ARGV[own[i] + 1], ARGV[own[i] + 2], ARGV[own[i] + 3]
  end

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

  local first, known = clock, granted and granted[lock] or strings[i]
  if known then
    known = tonumber(known)
    if not known then
      err = err or 'ERR ' .. KEYS[n + i] .. ' is no number'
    elseif known + 1 > first then
      first = known + 1
    end
  end
  if floor ~= '0' and floor + 1 > first then
    first = floor + 1
  end
  local last = first + tokens - 1

  local released = false
  if old then
    local number = ARGV[2] .. ARGV[7 + i]
    released = (even[i] and number < even[i]) or (odd[i] and number < odd[i])
  end

  if released then
    reply[size + 1], reply[size + 2] = i, -1
    size = size + 2
  elseif err then
    reply[size + 1], reply[size + 2], reply[size + 3] = i, -3, err
    size = size + 3
  elseif busy then
    local queued = false
    if store and asks[i] then
      local order, places = queue(lock)
      -- Unless the server is full, or a key is spoilt.
      queued = type(pcall('HSET', places, tenure, tokens .. ':' .. store)) ~= 'table' and
        type(pcall('ZADD', order, 'NX', at, tenure)) ~= 'table'
      if queued then
        call('SET', 'lockagent_queues', '1', 'PX', queue_retention)
        call('PEXPIRE', order, queue_retention)
        call('PEXPIRE', places, queue_retention)
      end
    elseif store and placed[i] then
      queued = type(pcall('ZSCORE', (queue(lock)), tenure)) == 'string'
    end
    reply[size + 1], reply[size + 2], reply[size + 3], reply[size + 4] = i, queued and 2 or 0, left, holder
    size = size + 4
  elseif first > greatest_token - tokens + 1 then -- beyond 2^53 a sum is not exact
    reply[size + 1], reply[size + 2] = i, -2
    size = size + 2
  else
    if not clock_is_kept then
      call('SET', KEYS[2 * n + 1], limit_text)
      clock_is_kept = true
    end
    if last >= limit then
      -- It may be forgotten only when the clock has passed it.
      call('SET', KEYS[n + i], last, 'PX', token_retention + math.max(0, math.floor((last - now) / 1000)))
    end
    call('HSET', lock, tenure, '1')
    if left < 0 or left < lease + 0 then
      call('PEXPIRE', lock, lease)
    end
    if store and (asks[i] or placed[i]) then
      local order, places = queue(lock)
      pcall('ZREM', order, tenure)
      pcall('HDEL', places, tenure)
    end
    if granted then
      granted[lock] = last
    end
    if first ~= clock then
      reply[size + 1], reply[size + 2], reply[size + 3] = i, 1, first
      size = size + 3
    end
  end
end
if size == 1 then
  return reply[1]
end
return reply
