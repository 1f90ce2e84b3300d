-- spin_acquire.lua is acquire.lua for spin locks, which have no queue.
--
-- KEYS, ARGV and the reply are those of acquire.lua. Nobody gets a place. A tenure that asks for one contends: its agent found the
-- lock busy, or returned it while requests waited.
--
-- Redisson's spin lock asks every 128 ms in the end. While agents contend, it finds the lock free only by luck. So it
-- gets turns as in polls.lua, when agents have contended for half a second.
--
-- lockagent_busy:{N} is "<since> spins <noted> <last>". Agents have contended from the time since to the time noted, without
-- a pause. last had the lock then, or is "-" after a turn. A holder that is new was not noted when it got the lock. So that
-- was no agent that contends, but somebody who had luck. This makes up for some of the time. No other script reads this form
-- of the key.

--include request.lua

local held_as = '5' -- see kinds.lua

local quiet = (n == 1 and call('EXISTS', keys[1], keys[2]) or call('EXISTS', unpack(keys, 1, 2 * n))) == 0
--include quick.lua
--include still.lua
local moving = not quiet and args[2] == '-' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

--include tokens.lua

--include holders.lua
--include polls.lua

local message_kind = ''

--include grants.lua

--include room.lua

-- Notes who has the lock: the holder, or the tenure that is about to be granted the free lock. It reports whether it is the
-- turn of those that poll. If they took the lock in the last one, the next one comes sooner.
local function polls_turn(i, suffix, tenure, holder, taken)
  local pause, met, soon, taken_lately = 100000, 10000, 200000, 1000000 -- in microseconds
  local tag = string.sub(key, 16)
  local seen = pcall('MGET', 'lockagent_busy' .. suffix, 'lockagent_polls' .. tag)
  local since, noted, last = string.match(type(seen[1]) == 'string' and seen[1] or '', '^(%d+) spins (%d+) (.+)$')
  local polls = polled('lockagent_polls' .. tag, seen[2], 'hexists', remembered, clock)
  local again = last and not holder and string.match(last, '^(.*):') == string.match(tenure, '^(.*):')
  if not since or clock - since < -turn_lasts or clock - noted > pause and not again then
    since = clock
  elseif holder and holder ~= last then
    since = math.min(clock, since + met)
  end
  if holder and last == '-' then
    pcall('ZADD', keys[n + i], first, 'taken')
  end
  local wait = taken and clock - taken < taken_lately and soon or busy_before_turn
  if not holder and polls and clock - since >= wait then
    pcall('ZADD', keys[n + i], string.format('%.0f', clock + turn_lasts), 'polls')
    pcall('PEXPIRE', keys[n + i], 60000)
    since = clock + turn_lasts
    busy(suffix, since, string.format('spins %.0f -', since))
    return true
  end
  if last ~= (holder or tenure) or clock - noted > pause / 2 then
    busy(suffix, since, 'spins ' .. first .. ' ' .. (holder or tenure))
  end
  return false
end

-- Tries one lock, and returns what there is to say about it.
local function try(i)
  local a, lock = per * (i - 1) + 2, keys[i]
  local tenure, lease, contends = args[a + 1], args[a + 2], per == 3 and args[a + 3] ~= ''
  local suffix = string.sub(keys[n + i], 16)
--include met.lua
  if not holder then
    left = math.max(kept_for(notes[2], 50), kept_for(notes[3], turn_lasts / 1000))
  end
  if own or not holder and left <= 0 then
    if own or not contends or not polls_turn(i, suffix, tenure, nil, notes[4]) then
      grant(lock, tenure, lease, own and left or -2, own)
      return token ~= first and 'g ' .. token .. ' 0'
    end
    left = turn_lasts / 1000
  elseif holder and contends then
    polls_turn(i, suffix, tenure, holder, notes[4])
  end
  return 'h ' .. left .. ' 0 ' .. (holder or '')
end

--include answer.lua
