-- release.lua ends a tenure of each of n locks, or withdraws one that has not begun,
-- for one agent.
--
-- KEYS[i]     a lock: a hash with one field, the tenure that has it
-- KEYS[n+1], [n+2]  what the agent released in even and in odd minutes: hashes of the
--             last tenure by lock, as "<number>:<released>:<s>:<us>:<others>" with the
--             time in two parts, released being 2 if the lock was passed on; and the
--             minute in the field ''
-- KEYS[n+3]   is there if some lock has a queue; none where there are no queues
-- ARGV[1]     how to wake those who wait: PUBLISH or SPUBLISH
-- ARGV[1+i]   the channel of the lock
-- The next are three for each lock:
--   the tenure: "<agent>:<number>"
--   the number of the tenure, with 19 digits
--   how many of the channel's subscribers are this Store itself, or -1 if the
--   subscribers cannot be counted
-- ARGV[4n+2]  the Store
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

local release_retention = 60 -- in s, at least
local token_retention = 3600000 -- in ms
local greatest_token = 9007199254740991
local pass_lease = '2000' -- in ms

-- What is seldom needed is made where it is needed, see acquire.lua.
local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local at = time[1] .. ':' .. time[2]
local n = (#ARGV - 2) / 4

-- What was released in the minute before the last is forgotten when its hash is needed.
local minute = (time[1] - time[1] % release_retention) / release_retention
local recent, before = KEYS[n + 1 + minute % 2], KEYS[n + 1 + (minute + 1) % 2]
minute = minute .. ''
local records = call('HMGET', recent, '', unpack(KEYS, 1, n))
if not records[1] or records[1] - minute < 0 then -- it is later if the clock was set back
  call('UNLINK', recent) -- it may be large
  pcall('HSET', recent, '', minute)
  call('EXPIRE', recent, 3 * release_retention)
  records = {}
end
local known = n > 1 and {} -- of this script, by lock: a lock may be among the n twice
local fields, size = {recent}, 1
local reply, length = {now}, 1

-- Where there are queues, one command counts all subscribers: how many has channel i
-- is at 2i. Then pass gives a lock that is free to the tenure that has waited longest, if
-- nobody waits outside of the queue.
local counts, key, pass
if KEYS[n + 3] and call('GET', KEYS[n + 3]) then
  counts = call('PUBSUB', 'NUMSUB', unpack(ARGV, 2, n + 1))

  key = function(prefix, lock)
    if string.find(lock, '{', 1, true) then
      return prefix .. '::' .. lock
    end
    return prefix .. ':{' .. lock .. '}'
  end

  local function withdrawn(lock, agent, number)
    local padded = string.rep('0', 19 - #number) .. number
    for _, parity in ipairs({'even:', 'odd:'}) do
      local record = call('HGET', 'lockagent_' .. parity .. agent, lock)
      if record and padded < record then -- see acquire.lua
        return true
      end
    end
    return false
  end

  pass = function(lock, waiting)
    local order, places = key('lockagent_queue', lock), key('lockagent_places', lock)
    local queued, seen = 0, {[ARGV[4 * n + 2]] = true}
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
      local first = math.max(now, tonumber(kept[2] or 0) or greatest_token, (tonumber(kept[1] or 0) or greatest_token) + 1)
      if tokens and first <= greatest_token - tokens + 1 and not withdrawn(lock, agent, number) then
        local last = first + tokens - 1
        call('SET', token, last, 'PX', token_retention + math.max(0, math.floor((last - now) / 1000)))
        call('HSET', lock, tenure, '1')
        call('PEXPIRE', lock, pass_lease)
        -- Nobody must hear of a lock that it does not have, so this comes last.
        local message = table.concat({tenure, string.format('%.0f', first), tokens, string.format('%.0f', now), kept[3] or '', lock}, ' ')
        local receivers = pcall('PUBLISH', 'lockagent_pass:' .. store, message)
        if type(receivers) == 'number' and receivers > 0 then
          return true
        end
        call('HDEL', lock, tenure)
      end
    end
  end
end

-- Answers a call for a tenure that did not have the lock.
local function withdraw(lock, tenure, number, record)
  for _, r in ipairs({record or '', call('HGET', before, lock) or ''}) do
    local last, released, s, us, others = string.match(r, '^(%d+):(%d):(%d+):(%d+):(%-?%d+)$')
    if last == number then
      reply[length + 1], reply[length + 2], reply[length + 3], reply[length + 4] = 2, tonumber(released), s * 1000000 + us, tonumber(others)
      length = length + 4
      return
    end
  end
  if counts then
    call('ZREM', key('lockagent_queue', lock), tenure)
    call('HDEL', key('lockagent_places', lock), tenure)
  end
  if not record or number > record then
    record = number .. ':0:' .. at .. ':0'
    local kept = pcall('HSET', recent, lock, record)
    if type(kept) == 'table' then
      reply[length + 1], reply[length + 2] = -1, kept.err
      length = length + 2
      return
    end
    if known then
      known[lock] = record
      fields[size + 1], fields[size + 2] = lock, record -- after what is to be written still
      size = size + 2
    end
  end
  reply[length + 1] = 0
  length = length + 1
end

for i = 1, n do
  local lock, a = KEYS[i], n + 3 * i
  local tenure, number, own = ARGV[a - 1], ARGV[a], ARGV[a + 1]
  local record = known and known[lock] or records[i + 1]
  local removed = pcall('HDEL', lock, tenure)
  if removed == 1 then
    local released, others = 1, 0
    if counts then -- it may have a place still, if a reply was lost
      call('ZREM', key('lockagent_queue', lock), tenure)
      call('HDEL', key('lockagent_places', lock), tenure)
    end
    if counts and counts[2 * i] > 0 and pass(lock, counts[2 * i] - own) then
      released = 2
    else
      others = pcall(ARGV[1], ARGV[1 + i], '0')
      if own == '-1' or type(others) ~= 'number' then
        others = -1 -- a user who may not publish there has released the lock all the same
      elseif others > 0 then
        others = math.max(0, others - own)
      end
    end
    -- A later tenure may have been withdrawn before: that must not be forgotten. A record
    -- is greater than its number, see acquire.lua.
    if not record or number > record then
      record = number .. ':' .. released .. ':' .. at .. ':' .. others
      fields[size + 1], fields[size + 2] = lock, record
      size = size + 2
      if known then
        known[lock] = record
      end
    end
    if released == 2 then
      reply[length + 1] = 3
      length = length + 1
    else
      reply[length + 1], reply[length + 2] = 1, others
      length = length + 2
    end
  elseif removed == 0 or string.find(removed.err, 'WRONGTYPE', 1, true) then
    -- What is no lock is not held by the tenure: that is no error here, for a
    -- tenure that could not begin is withdrawn all the same.
    withdraw(lock, tenure, number, record)
  else
    reply[length + 1], reply[length + 2] = -1, removed.err
    length = length + 2
  end
end
if size > 1 then
  pcall('HSET', unpack(fields)) -- what cannot be remembered has been released all the same
end
return reply
