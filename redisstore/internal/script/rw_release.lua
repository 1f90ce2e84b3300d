-- rw_release.lua ends a tenure of each of n read/write locks, or withdraws a tenure that has not begun, for
-- one agent. Its keys, arguments and reply are those of release.lua, with these differences:
--
--   * The arguments name a tenure without its mode: the script finds it in either mode.
--   * The flags of a lock are always there.
--
-- When the last tenure leaves, the first writer in the queue gets the lock, or all readers in front do. If nobody in
-- the queue gets it, the script publishes "1" after a writer, and "0" after a reader. A reader that leaves others
-- behind wakes nobody. The hash then lasts until the leases of all of them are over. If another program has one of
-- them, the end of the hash stays as it is.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local server = time[1] * 1000000 + time[2]
local clock, n = server, (#keys - 1) / 2
--include rw_free.lua

--include still.lua
local moving = args[1] ~= 'single' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end
local ahead, ahead_key, names = '0', keys[2 * n + 1], {}
for i = 1, n do
  names[i + 1] = 'lockagent_turn' .. string.sub(keys[n + i], 16)
end
names[1] = ahead_key
local turns = pcall('MGET', unpack(names)) -- what is no string is read as if it were not there
if string.find(turns[1] or '', '^%d+$') and clock + turns[1] <= 9007199254740991 then
  ahead, clock = turns[1], clock + turns[1]
end

-- First the places are taken back. Redis lets a script that has written something write on, also if the server is full. So
-- no tombstone is lost.
local waited = {}
for i = 1, n do
  local tenure = args[3 * (i - 1) + 3]
  waited[i] = pcall('ZREM', keys[n + i], tenure .. ':write')
  if type(waited[i]) == 'table' and string.find(waited[i].err, 'READONLY', 1, true) then
    return waited[i] -- a replica: nothing was done, and another server can do it
  end
  pcall('ZREM', keys[n + i], tenure)
end
--include last.lua

local room = args[1]
local yield = 10000 -- in microseconds
local turn_every = 250 -- in ms

--include holders.lua

--include old_ways.lua

--include rw.lua

--include foreign.lua

--include turn.lua

local held_as = '1'
--include begin.lua

--include rw_pass.lua

-- How long the hash has to live for those that still read, in ms; nil if nobody can tell.
local function remaining(suffix, list)
  local most = 0
  for _, tenure in ipairs(list) do
    local ends = pcall('ZSCORE', 'lockagent_readers' .. suffix, tenure)
    ends = type(ends) == 'string' and ends + 0
    if not ends or ends <= wall then
      return nil
    end
    most = math.max(most, ends - wall)
  end
  return most
end

-- Passes a lock that is free, or wakes all waiters.
local function hand_on(i, lock, channel, queue, flags, suffix, payload)
  local subscribed = string.find(flags, 's', 1, true) and 1 or 0
  local front, names, counts = waiting(queue, channel, suffix)
  local outsiders, theirs, polls = nil, false, nil
  if front[1] then
    outsiders = math.max(0, counts[2] - counts[4])
    local hurry -- an outsider that had its turn lately is about to subscribe again
    theirs, hurry = turn(i, queue, suffix, outsiders)
    polls = outsiders == 0 and foreign_turn(suffix, true)
    if not theirs and not polls then
      local passed, next, more = pass_on(lock, suffix, queue, front, names, counts, false, hurry, string.match(flags, 't(.+)') or '-')
      if passed > 0 then
        if more or outsiders > 0 and call('HMGET', lock, 'mode')[1] == 'read' then
          pcall(publish, channel, '1') -- they may share the lock
        end
        for p = next, math.min(next + standbys - 1, #front) do
          pcall(publish, names[p + 2], 'readwrite standby ' .. tenure_of(front[p]) .. ' ' .. pass_lease .. ' ' .. lock)
        end
        return 'p'
      end
    end
  end
  local over = pcall('ZSCORE', 'lockagent_notes' .. suffix, 'polls')
  if turn_left(type(over) == 'string' and over) then
    begin_turn(suffix) -- readers were asked to leave for it, and have done so
  end
  local others = pcall(publish, channel, payload)
  local known = type(others) == 'number' -- the user may publish there
  if not outsiders and room ~= 'unqueued' and known and others > subscribed then
    outsiders = outsiders_of(channel, suffix)
  end
  if theirs or outsiders and outsiders > 0 then
    note(suffix, clock + yield, 'yield')
    pcall('SET', 'lockagent_turn' .. suffix, '0', 'PX', turn_every)
  end
  if room == 'unqueued' or known and others <= subscribed then
    return nil
  end
  return 'r ' .. (known and others - subscribed or -1)
end

-- Ends one tenure, and returns what there is to say about it.
local function leave(i)
  local a, lock, queue = 3 * (i - 1) + 2, keys[i], keys[n + i]
  local tenure, channel, flags, suffix = args[a + 1], args[a + 2], args[a + 3], string.sub(queue, 16)
  if string.find(flags, 'u', 1, true) then
    note(suffix, clock, tenure)
  end
  local err, mode, list, whole = look(lock, suffix)
  if err then
    return string.sub(err, 1, 5) == 'KIND ' and 'n' or 'e ' .. err
  end
  if mode == 'write' and call('HDEL', lock, tenure .. ':write') == 1 then
    call('DEL', lock)
    return hand_on(i, lock, channel, queue, flags, suffix, '1')
  end
  if mode == 'read' and call('HMGET', lock, tenure)[1] then
    drop(lock, suffix, tenure)
    if call('HLEN', lock) == 1 then
      call('DEL', lock)
      return hand_on(i, lock, channel, queue, flags, suffix, '0')
    end
    for p, field in ipairs(list) do
      if field == tenure then
        table.remove(list, p)
        break
      end
    end
    local left = whole and remaining(suffix, list)
    if left then
      call('PEXPIRE', lock, string.format('%.0f', left))
    end
    return nil
  end
  forget(suffix, tenure)
  if waited[i] == 1 and mode == 'read' then
    pcall(publish, channel, '1') -- the tenure may have kept readers out
  end
  return 'n'
end

local lines = {string.format('%.0f', clock)}
for i = 1, n do
  local line = leave(i)
  if line then
    lines[#lines + 1] = i .. ' ' .. line
  end
end
return table.concat(lines, '\n')
