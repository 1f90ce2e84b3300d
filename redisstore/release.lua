-- release.lua ends a tenure of each of n locks, or withdraws one that has not begun,
-- for one agent.
--
-- KEYS[i]     a lock: a hash with one field, the tenure that has it
-- KEYS[n+1], [n+2]  what the agent released in even and in odd minutes: hashes of the
--             last tenure by lock, as "<number>:<released>:<time>:<others>", released being
--             2 if the lock was passed on. The field '' is "<number>:<time>", the greatest
--             number in the hash, and the latest second in which it was changed
-- KEYS[n+3]   is there if some lock has a queue; none where there are no queues
-- ARGV[1]     "<agent>:", which with its number is a tenure
-- ARGV[2]     the zeros that make 19 digits of a number
-- ARGV[3]     the least of the numbers, with 19 digits
-- ARGV[4]     how to wake those who wait: PUBLISH or SPUBLISH
-- ARGV[5]     the Store
-- ARGV[6]     how many of a channel's subscribers are this Store itself, for all but those
--             below: 0, or -1 if the subscribers cannot be counted
-- ARGV[7]     on how many channels the Store itself is one of the subscribers: m
-- ARGV[7+i]   the number of the tenure
-- ARGV[7+n+i] the channel of the lock
-- The next m are the i of those channels.
--
-- Reply: the time in microseconds, if all locks were released and no others were woken, or
-- it is not known of any how many. Otherwise an array of this and, in order, for each lock of
-- which it is not true, i and one of
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

local release_retention = 60 -- in s, at least
local token_retention = 3600000 -- in ms
local greatest_token = 9007199254740991
local few_tokens = 8 -- see acquire.lua
local pass_lease = '2000' -- in ms

-- What is seldom needed is made where it is needed, and time is text, see acquire.lua.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local at = time[1] .. string.sub('00000' .. time[2], -6)
local n = (#ARGV - 7 - ARGV[7]) / 2

-- What was released in the minute before the last is forgotten when its hash is needed.
local second = time[1] % release_retention -- of the minute
local parity = (time[1] - second) / release_retention % 2
local recent, before = KEYS[n + 1 + parity], KEYS[n + 2 - parity]
local greatest, changed = call('HGET', recent, ''), time[1]
if not greatest or string.sub(greatest, 21) + second < time[1] + 0 then -- it is later if the clock was set back
  greatest = '0000000000000000000'
  call('UNLINK', recent) -- it may be large
  pcall('HSET', recent, '', greatest .. ':' .. time[1])
  call('EXPIRE', recent, 3 * release_retention)
elseif string.sub(greatest, 21) > changed then -- what was released then must not be forgotten earlier
  changed = string.sub(greatest, 21)
end
local old = greatest > ARGV[3] -- then some lock may have a later record
greatest = string.sub(greatest, 1, 19)
local records = old and call('HMGET', recent, unpack(KEYS, 1, n))
local known = n > 1 and {} -- of this script, by lock: a lock may be among the n twice
local fields, size = {recent, '', greatest}, 3

-- Where there are queues, one command counts the subscribers of all channels: how many has
-- channel i is at 2i. Then pass gives a lock that is free to the tenure that has waited
-- longest, if nobody waits outside of the queue.
local queues = KEYS[n + 3] and call('GET', KEYS[n + 3])
local counts = queues and call('PUBSUB', 'NUMSUB', unpack(ARGV, 8 + n, 7 + 2 * n))
local key, pass
if queues then
  key = function(prefix, lock)
    if string.find(lock, '{', 1, true) then
      return prefix .. '::' .. lock
    end
    return prefix .. ':{' .. lock .. '}'
  end

  local function withdrawn(lock, agent, number)
    local padded = string.rep('0', 19 - #number) .. number
    for _, which in ipairs({'even:', 'odd:'}) do
      local record = call('HGET', 'lockagent_' .. which .. agent, lock)
      if record and padded < record then -- see acquire.lua
        return true
      end
    end
    return false
  end

  pass = function(lock, waiting)
    local now = tonumber(at)
    local order, places = key('lockagent_queue', lock), key('lockagent_places', lock)
    local queued, seen = 0, {[ARGV[5]] = true}
    for _, place in ipairs(call('HVALS', places)) do
      local store = string.match(place, ':(.*)$')
      if store and not seen[store] then
        queued, seen[store] = queued + 1, true
      end
    end
    if waiting > queued then
      return false
    end
    while true do
      local tenure = call('ZPOPMIN', order)[1]
      if not tenure then
        return false
      end
      local agent, number = string.match(tenure, '^(.*):(%d+)$')
      local tokens, store = string.match(call('HGET', places, tenure) or '', '^(%d+):(.*)$')
      call('HDEL', places, tenure)
      local token = key('lockagent_token', lock)
      local kept = call('MGET', token, 'lockagent_clock', 'lockagent_incarnation')
      local first = math.max(now, (tonumber(kept[2] or 0) or greatest_token) + few_tokens, (tonumber(kept[1] or 0) or greatest_token) + 1)
      if tokens and first <= greatest_token - tokens + 1 and not withdrawn(lock, agent, number) then
        local last = first + tokens - 1
        call('SET', token, last, 'PX', token_retention + math.max(0, math.floor((last - now) / 1000)))
        call('HSET', lock, tenure, '1')
        call('PEXPIRE', lock, pass_lease)
        -- Nobody must hear of a lock that it does not have, so this comes last.
        local message = table.concat({tenure, string.format('%.0f', first), tokens, at, kept[3] or '', lock}, ' ')
        local receivers = pcall('PUBLISH', 'lockagent_pass:' .. store, message)
        if type(receivers) == 'number' and receivers > 0 then
          return true
        end
        call('HDEL', lock, tenure)
      end
    end
  end
end

local own_count = tonumber(ARGV[6])
local own
if ARGV[7] ~= '0' then
  own = {}
  for a = 8 + 2 * n, #ARGV do
    own[tonumber(ARGV[a])] = true
  end
end

local reply, length = {at}, 1

-- Answers a call for a tenure that did not have the lock.
local function withdraw(i, lock, tenure, number, record)
  for _, r in ipairs({record or '', call('HGET', before, lock) or ''}) do
    local last, released, when, others = string.match(r, '^(%d+):(%d):(%d+):(%-?%d+)$')
    if last == number then
      reply[length + 1], reply[length + 2], reply[length + 3] = i, 2, tonumber(released)
      reply[length + 4], reply[length + 5] = tonumber(when), tonumber(others)
      length = length + 5
      return
    end
  end
  if queues then
    call('ZREM', key('lockagent_queue', lock), tenure)
    call('HDEL', key('lockagent_places', lock), tenure)
  end
  if not record or number > record then
    record = number .. ':0:' .. at .. ':0'
    if number > greatest then
      greatest = number
    end
    local kept = pcall('HSET', recent, '', greatest .. ':' .. changed, lock, record)
    if type(kept) == 'table' then
      reply[length + 1], reply[length + 2], reply[length + 3] = i, -1, kept.err
      length = length + 3
      return
    end
    if known then
      known[lock] = record
      fields[size + 1], fields[size + 2] = lock, record -- after what is to be written still
      size = size + 2
    end
  end
  reply[length + 1], reply[length + 2] = i, 0
  length = length + 2
end

local released_now, passed_now = ':1:' .. at .. ':', ':2:' .. at .. ':0'
for i = 1, n do
  local lock, number = KEYS[i], ARGV[2] .. ARGV[7 + i]
  local tenure = ARGV[1] .. ARGV[7 + i]
  local record = known and known[lock] or old and records[i]
  local removed = pcall('HDEL', lock, tenure)
  if removed == 1 then
    local own_here, others, passed = own and own[i] and 1 or own_count, 0, false
    if queues then -- it may have a place still, if a reply was lost
      call('ZREM', key('lockagent_queue', lock), tenure)
      call('HDEL', key('lockagent_places', lock), tenure)
    end
    if queues and counts[2 * i] > 0 then
      passed = pass(lock, counts[2 * i] - own_here)
    end
    if not passed then -- also if nobody subscribes here: they may at a replica
      others = pcall(ARGV[4], ARGV[7 + n + i], '0')
      if own_here < 0 or type(others) ~= 'number' then
        others = -1 -- a user who may not publish there has released the lock all the same
      elseif others > 0 then
        others = math.max(0, others - own_here)
      end
    end
    -- A later tenure may have been withdrawn before: that must not be forgotten. A record
    -- is greater than its number, see acquire.lua.
    if not record or number > record then
      record = number .. (passed and passed_now or released_now .. others)
      fields[size + 1], fields[size + 2] = lock, record
      size = size + 2
      if number > greatest then
        greatest = number
      end
      if known then
        known[lock] = record
      end
    end
    if passed then
      reply[length + 1], reply[length + 2] = i, 3
      length = length + 2
    elseif others ~= own_count then -- which are what others are if nobody waits
      reply[length + 1], reply[length + 2], reply[length + 3] = i, 1, others
      length = length + 3
    end
  elseif removed == 0 or string.find(removed.err, 'WRONGTYPE', 1, true) then
    -- What is no lock is not held by the tenure: that is no error here, for a
    -- tenure that could not begin is withdrawn all the same.
    withdraw(i, lock, tenure, number, record)
  else
    reply[length + 1], reply[length + 2], reply[length + 3] = i, -1, removed.err
    length = length + 3
  end
end
if size > 3 then
  fields[3] = greatest .. ':' .. changed
  pcall('HSET', unpack(fields)) -- what cannot be remembered has been released all the same
end
if length == 1 then
  return at
end
return reply
