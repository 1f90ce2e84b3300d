-- rw_acquire.lua tries once to begin a tenure of each of n read/write locks, for one agent. Its keys,
-- arguments and reply are those of acquire.lua, with these differences:
--
--   * The tenure of a writer is "<agent>:<number>:write". So is its place in the queue.
--   * The last argument for a lock is always there: how messages travel, see release.lua. It begins with
--     "-" if the tenure does not ask for a place.
--   * No tenure may rest.
--
-- A reader joins those that have the lock. It has to wait if a writer whose agent listens has one of the first
-- eight places, ahead of the reader's. It has to wait if outsiders do, because they may be writers.

--include old_request.lua

--include rw_quick.lua

--include still.lua
local moving = args[2] == '-' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

local raised, rest, held_as = false, nil, '1'
--include tokens.lua

--include holders.lua

local message_kind, room = 'readwrite ', string.match(args[5], '%a+')

--include grants.lua

--include old_ways.lua

--include place.lua

local server = time[1] * 1000000 + time[2]
--include rw.lua

--include foreign.lua

-- Tells the agents of the first holders that another one wants the lock. Those that are not told learn of it when they
-- renew their leases. Reports whether one of the holders is no agent.
local most_told, most_tried = 8, 32
local function want_all(lock, tenure, list)
  local agent, told, foreign = string.match(tenure, '^[^:]*'), 0, false
  for p = 1, math.min(#list, most_tried) do
    local other = string.match(list[p], '^([^:]*):%d+')
    if other and (p > 1 or other ~= agent) and told < most_told then
      local holder = tenure_of(list[p])
      local heard = pcall('PUBLISH', 'lockagent_agent:' .. other, 'readwrite wanted ' .. holder .. ' ' .. lock)
      if heard ~= 0 or is_agent(holder) then
        told = told + 1
      else
        foreign = true
      end
    end
  end
  return foreign
end

-- Finds the field that a tenure has already.
local function own_field(lock, tenure)
  local counts = call('HMGET', lock, tenure, tenure .. ':write')
  return counts[1] and tenure or counts[2] and tenure .. ':write'
end

local listened = 300 -- in ms: when to try again if an outsider listens, who may have the lock by now
local downgrades = 1000 -- in ms: when a reader tries again behind a writer of another program. Redisson tells nobody that a writer reads on

-- Tries one lock, and returns what there is to say about it.
local function try(i)
  local a, lock, suffix = 3 * (i - 1) + 2, keys[i], string.sub(keys[n + i], 16)
  local field, lease = args[a + 1], args[a + 2]
  local tenure, asks = tenure_of(field), string.sub(args[a + 3], 1, 1) ~= '-'
  local notes = pcall('ZMSCORE', keys[n + i], tenure, 'yield', 'polls', 'foreign')
  if notes[1] then
    return 'w'
  end
  local err, mode, list = look(lock, suffix)
  if err then
    return 'e ' .. err
  end
  local queue = 'lockagent_queue' .. suffix
  local outsiders, joins, writers = 0, mode == 'read' and field == tenure, false
  if asks or joins then
    local waiting = outsiders_of('redisson_rwlock' .. their_suffix(suffix), suffix)
    writers = waiting > 0
    outsiders = asks and waiting or 0
  end
  local left = mode and call('PTTL', lock) or math.max(
    room ~= 'unqueued' and (not asks or outsiders > 0) and kept_for(notes[2], 10) or 0,
    kept_for(notes[3], turn_lasts / 1000))
  local own = mode and own_field(lock, tenure)
  local granted
  local theirs -- how much is left of the turn of those that poll
  if notes[4] and outsiders == 0 and not own and (joins or not mode and left <= 0) then
    theirs = foreign_turn(suffix, asks or joins)
  end
  if own then
    granted = own
    grant(lock, own, lease, nil, true)
  elseif theirs then
    left = math.ceil(theirs / 1000)
  elseif not mode and left <= 0 then
    granted = field
    grant(lock, field, lease, nil, false)
    call('HSET', lock, 'mode', field == tenure and 'read' or 'write')
    pcall('DEL', 'lockagent_readers' .. suffix)
  elseif joins and (room == 'unqueued' or not writers and not writer_waits(suffix, tenure)) then
    granted = field
    grant(lock, field, lease, nil, true)
  elseif joins and writers and asks then
    left = left < 0 and listened or math.min(left, listened)
  end
  if granted then
    if left < lease + 0 then
      call('PEXPIRE', lock, lease)
    end
    if granted == tenure then
      keep(lock, suffix, tenure, lease)
    end
    if asks then
      pcall('ZREM', queue, field)
      if outsiders == 0 then
        outsiders = call('EXISTS', 'lockagent_turn' .. suffix) -- one that had its turn lately comes back
      end
    end
    return (outsiders > 0 or token ~= first) and 'g ' .. token .. ' ' .. outsiders
  end
  local foreign = asks and list[1] and want_all(lock, tenure, list)
  if foreign then
    met_foreign(suffix)
  end
  local queued = asks and place(field, queue, suffix)
  local code = queued and 'q ' or 'h '
  if queued and field == tenure and mode == 'write' and not is_agent(tenure_of(list[1])) then
    code = 'k ' .. downgrades .. ' '
  end
  local polls = theirs and clock + theirs or notes[3]
  if queued and (foreign or not list[1]) and polls and math.abs(clock - polls) < soon_after and
    pcall('ZRANGE', queue, 0, 0)[1] == field then
    code = 'k ' .. look_soon .. ' '
  end
  return code .. left .. ' ' .. outsiders .. ' ' .. (list[1] and tenure_of(list[1]) or '')
end

--include old_answer.lua
