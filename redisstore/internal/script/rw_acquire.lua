-- rw_acquire.lua tries once to begin a tenure of each of n read/write locks, for one agent. Its keys,
-- arguments and reply are those of acquire.lua, with these differences:
--
--   * The tenure of a writer is "<agent>:<number>:write". So is its place in the queue.
--   * The last argument for a lock is always there: how messages travel, see release.lua. It begins with
--     "-" if the tenure does not ask for a place. It ends with "+rests" if it asks to be one that may rest.
--
-- A reader joins those that have the lock. It has to wait if a writer whose agent listens has one of the first
-- eight places, ahead of the reader's. It has to wait if outsiders do, because they may be writers. And it has to
-- wait while the slot migrates and the node cannot make the reader's key: an unlock of Redisson deletes a hash
-- whose readers have no keys.

--include request.lua

local raised, rest, held_as = false, nil, '1'
--include tokens.lua

--include holders.lua

local message_kind, room = 'readwrite ', string.match(args[5], '%a+')

--include grants.lua

--include ways.lua

--include place.lua

local server = time[1] * 1000000 + time[2]
--include rw.lua

--include rw_doubt.lua

--include rw_polls.lua

-- Returns the values that tell which of the first holders may rest. value is that of a writer's field.
local most_told, most_tried = 8, 32
local function marks_of(suffix, mode, list, value)
  if mode ~= 'read' then
    return {value}
  end
  local names = {}
  for p = 1, math.min(#list, most_tried) do
    names[p] = timeout_key(suffix, list[p])
  end
  return names[1] and pcall('MGET', unpack(names)) or {}
end

-- Tells agents that have the lock that another one wants it: all, or those whose tenures may rest. It reports whether it told one of these. The
-- reply names the first of them. Those that are not told learn of it when they renew their leases. What nobody can read may be a mark.
-- A reader that has lost the lock, and does not seem to know it, is told so once more.
local function want_all(lock, tenure, list, all, marks)
  local agent, told, recalled = string.match(tenure, '^[^:]*'), 0, false
  for p = 1, math.min(#list, most_tried) do
    local other, rests = string.match(list[p], '^([^:]*):%d+'), may_rest(tenure_of(list[p]), marks[p] or '')
    if other and (p > 1 or other ~= agent) and told < most_told and (all or rests or marks.err) then
      local reader = tenure_of(list[p])
      local heard = pcall('PUBLISH', 'lockagent_agent:' .. other, 'readwrite wanted ' .. reader .. ' ' .. lock)
      if have_lost[list[p]] then -- the message that told so may be lost. Of a tenure that its agent does not know, only the other one tells
        pcall('PUBLISH', 'lockagent_agent:' .. other, 'readwrite doubted ' .. reader .. ' ' .. lock)
      end
      told = (heard ~= 0 or is_agent(reader)) and told + 1 or told
      recalled = recalled or rests
    end
  end
  return recalled
end

-- Reports whether a tenure that begins may rest. It may not while others want the lock.
local function begins_to_rest(tenure, field, suffix)
  local places = is_agent(tenure) and pcall('ZRANGE', 'lockagent_queue' .. suffix, 0, 1)
  return places and not places.err and (places[1] or field) == field and not places[2] and
    pcall('EXISTS', 'lockagent_turn' .. suffix) == 0 -- otherwise an outsider that had its turn lately comes back
end

-- Finds the field that a tenure has already, and its value.
local function own_field(lock, tenure)
  local counts = call('HMGET', lock, tenure, tenure .. ':write')
  return counts[1] and tenure or counts[2] and tenure .. ':write', counts[1] or counts[2]
end

local moving = 100 -- in ms: when to try again if a key is on its way to another node
local listened = 300 -- in ms: when to try again if an outsider listens, who may have the lock by now
local downgrades = 1000 -- in ms: when a reader tries again behind a writer of another program. Redisson tells nobody that a writer reads on

-- Tries one lock, and returns what there is to say about it.
local function attempt(i, lock, suffix)
  local a = 3 * (i - 1) + 2
  local field, lease = args[a + 1], args[a + 2]
  local tenure, asks, rests = tenure_of(field), string.sub(args[a + 3], 1, 1) ~= '-', string.find(args[a + 3], '+rests', 1, true)
  local notes = pcall('ZMSCORE', keys[n + i], tenure, 'yield', 'polls')
  if notes[1] then
    return 'w'
  end
  local err, mode, list, _, value = look_closely(lock, suffix)
  if err then
    return 'e ' .. err
  end
  local queue = 'lockagent_queue' .. suffix
  local outsiders, joins, writers = 0, mode == 'read' and field == tenure, false
  if asks or joins or rests then
    local waiting = outsiders_of('redisson_rwlock' .. their_suffix(suffix), suffix)
    writers = waiting > 0
    outsiders = (asks or rests) and waiting or 0
  end
  local left = mode and call('PTTL', lock) or math.max(
    room ~= 'unqueued' and (not asks or outsiders > 0) and kept_for(notes[2], 10) or 0, kept_for(notes[3], polls_turn / 1000))
  local own, had
  if mode then
    own, had = own_field(lock, tenure)
  end
  local granted, key, mark = nil, timeout_key(suffix, tenure), nil
  local theirs -- until when the lock is left to those that poll
  local unsought = outsiders == 0 and not alone
  if (asks or rests) and unsought and not own and (joins or not mode and left <= 0) then
    theirs = poll_turn(suffix, string.sub(keys[2 * n + 1], 16), joins, false)
  end
  if behind and not mode then
    left = behind
  elseif field == tenure and not (own == tenure and reaches(lock, key) or own ~= tenure and reaches(key)) then
    left = moving
  elseif own then
    granted = own
    -- Others may have met the tenure as it is. But one that was lost begins anew.
    mark = own == tenure and had ~= lost and pcall('MGET', key)[1] or own ~= tenure and had or nil
    grant(lock, own, lease, nil, true, own ~= tenure and had)
  elseif theirs then
    left = math.ceil((theirs - clock) / 1000)
  elseif not mode and left <= 0 then
    granted, mark = field, rests and unsought and begins_to_rest(tenure, field, suffix) and resting or nil
    grant(lock, field, lease, nil, false, field ~= tenure and mark)
    call('HSET', lock, 'mode', field == tenure and 'read' or 'write')
    if not alone then
      began(i, lock, tenure, mark)
      pcall('DEL', 'lockagent_readers' .. suffix)
    end
  elseif joins and (room == 'unqueued' or not writers and not writer_waits(suffix, tenure)) then
    granted, mark = field, rests and unsought and begins_to_rest(tenure, field, suffix) and resting or nil
    grant(lock, field, lease, nil, true)
  elseif joins and writers and asks then
    left = left < 0 and listened or math.min(left, listened)
  end
  if granted then
    if left < lease + 0 then
      end_at(lock, wall + lease)
    end
    if granted == tenure then
      keep(lock, suffix, tenure, lease, mark)
    end
    if asks and not alone then
      pcall('ZREM', queue, field)
      if outsiders == 0 then
        outsiders = call('EXISTS', 'lockagent_turn' .. suffix) -- one that had its turn lately comes back
      end
    end
    local code = rests and mark == resting and 'r ' or 'g '
    return (code == 'r ' or outsiders > 0 or token ~= first) and code .. token .. ' ' .. outsiders
  end
  local recalled = list[1] and want_all(lock, tenure, list, asks, marks_of(suffix, mode, list, value))
  local queued = asks and not alone and place(field, queue, suffix)
  local code = queued and 'q ' or 'h '
  if queued and field == tenure and mode == 'write' and not is_agent(tenure_of(list[1])) then
    code = 'k ' .. downgrades .. ' '
  end
  return (recalled and string.upper(code) or code) .. left .. ' ' .. outsiders .. ' ' .. (list[1] and tenure_of(list[1]) or '')
end

local function try(i)
  local lock, suffix = keys[i], string.sub(keys[n + i], 16)
  local line = attempt(i, lock, suffix)
  settle(lock, suffix)
  return line
end

--include answer.lua
