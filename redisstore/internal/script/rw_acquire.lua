-- rw_acquire.lua tries once to begin a tenure of each of n read/write locks, for one agent. Its keys, arguments and
-- reply are those of acquire.lua, with these differences:
--
--   * The tenure of a writer is "<agent>:<number>:write". So is its place in the queue.
--   * The last argument for a lock is always there: how messages travel, see release.lua. It begins with "-" if the
--     tenure does not ask for a place.
--   * No tenure may rest.
--
-- A reader joins those that have the lock. It has to wait if a writer whose agent listens has one of the first eight
-- places, ahead of the reader's. It has to wait if outsiders do, because they may be writers.

--include request.lua

--include rw_quick.lua

--include still.lua
local moving = keys[2 * n + 1] ~= 'lockagent_clock' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

--include advance.lua
local time, reply = clock_advance(keys[2 * n + 1], args[1], args[2], seen, nil)
if not time then
  return reply
end

--include tenure.lua

--include turns.lua

--include rw_wait.lua

--include answer.lua

-- Tells the agents of the first holders that another one wants the lock. Those that are not told learn of it when they
-- renew their leases.
--   who   the tenure that wants it
--   list  the fields of the holders
-- Reports whether one of these holders is no agent.
local most_told = 8
local function rw_want(lock, who, list)
  local foreign = false
  for p = 1, math.min(#list, most_told) do
    foreign = not tenure_want(lock, who, rw_tenure(list[p])) or foreign
  end
  return foreign
end

-- Reports whether a place is of a tenure that reads.
local function rw_reads(place)
  return place == rw_tenure(place)
end

local listened = 300 -- in ms: when to try again if an outsider listens, who may have the lock by now
local first = clock_shows(time) -- the first line of the reply begins with it

-- Tries one lock, and returns what there is to say about it.
return answer(reply, n, nil, function(i)
  local a, lock = 3 * (i - 1) + 2, rw_lock(keys[i], string.sub(keys[n + i], 16), string.match(args[3 * i + 2], '%a+'))
  local field, lease, asks = args[a + 1], args[a + 2], string.sub(args[a + 3], 1, 1) ~= '-'
  local who, queues = rw_tenure(field), lock.room ~= 'unqueued'
  local reads = field == who
  local notes = pcall('ZMSCORE', keys[n + i], who, 'yield', 'polls', 'foreign')
  if notes[1] then
    return 'w'
  end
  local err, mode, list = rw_look(lock, time)
  if err then
    return 'e ' .. err
  end
  local left, kept = -2, 0 -- of the lease in ms, and for how long a free lock is kept, in microseconds
  local may_join, own = reads and mode == 'read', nil
  local waiting = (asks or may_join) and ways_outsiders(lock.room, lock.channel, lock.suffix) or 0
  local outsiders = asks and waiting or 0
  if mode then
    left = call('PTTL', lock.name)
    local counts = call('HMGET', lock.name, who, who .. ':write')
    own = counts[1] and who or counts[2] and who .. ':write'
  else
    kept = math.max((not queues or asks and outsiders == 0) and 0 or turns_kept(time, notes[2]),
      turns_kept(time, notes[3]))
  end
  local open = own or not mode and kept == 0 or
    may_join and not (queues and (waiting > 0 or rw_writer_waits(lock, who)))
  if open and not own and notes[4] and outsiders == 0 then
    kept = turns_foreign(lock, time, asks or mode ~= nil)
    open, notes[3] = kept == 0, kept > 0 and time.now + kept or notes[3]
  end
  if open then
    local granted = own or field
    local token = tenure_begin(lock, time, granted, '1', lease, left, mode ~= nil)
    if not mode then
      call('HSET', lock.name, 'mode', reads and 'read' or 'write')
      pcall('DEL', lock.readers)
    end
    if granted == who then
      rw_keep(lock, time, who, lease)
    end
    local contested = false
    if asks then
      pcall('ZREM', lock.queue, field)
      contested = queue_contested(queue_front(lock), 1, granted == who and rw_reads)
      -- An outsider that had its turn lately comes back.
      outsiders = outsiders == 0 and turns_lately(lock) and 1 or outsiders
    end
    return (contested or outsiders > 0 or token ~= first) and
      (contested and 'G ' or 'g ') .. token .. ' ' .. outsiders
  end
  if kept > 0 then
    left = math.ceil(kept / 1000)
  elseif may_join and outsiders > 0 then
    left = left < 0 and listened or math.min(left, listened)
  end
  local foreign = asks and rw_want(lock, who, list)
  if foreign then
    turns_met_foreign(lock, time)
  end
  local queued, within = asks and queue_place(lock, time, field), nil
  local silent = foreign or not mode and turns_kept(time, notes[3]) > 0 -- nothing may tell when the lock is free
  if queued and silent and queue_is_first(lock, field) then
    within = turns_ask_within(time, notes[3])
  elseif queued and reads and mode == 'write' and not is_agent(rw_tenure(list[1])) then
    within = ask_every -- Redisson tells nobody that a writer reads on
  end
  local code = within and 'k ' .. within or queued and 'q' or 'h'
  return code .. ' ' .. left .. ' ' .. outsiders .. ' ' .. (list[1] and rw_tenure(list[1]) or '')
end)
