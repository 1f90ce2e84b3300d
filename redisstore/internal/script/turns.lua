-- turns.lua is a part of other scripts: the turns of programs that know no queue. lock has the suffix of our keys for
-- it, and its queue. time is as in clock.lua.
--
-- Outsiders listen to the channel of the lock, so they are counted. Now and then a release leaves the lock free for
-- them for a moment, and wakes them. The key lockagent_turn has how many passes were since, and lives for a while. The
-- note "yield" has until when the lock is kept from agents.
--
-- Programs that poll try again and again, and leave no trace at the lock. While agents contend, the lock is hardly ever
-- free when such a program tries. So a lock that a program which is no agent had within the last minute is left free
-- for a while, whenever agents have contended for long. It has these notes:
--   foreign    when an agent last met a holder that is no agent. Without it there are no turns
--   contended  since when agents contend, and have the lock
--   last       when an agent that contends was last granted the lock
--   polls      when a turn is over

--include notes.lua

-- Reports whether it is the turn of the outsiders, and counts the passes until it is. Also returns how many outsiders
-- the next holder has to reckon with: one that had its turn lately is about to subscribe again.
local function turns_theirs(lock, outsiders)
  local key = 'lockagent_turn' .. lock.suffix
  local text = pcall('GETRANGE', key, '0', '-1')
  local passes = type(text) == 'string' and tonumber(text)
  if outsiders == 0 then
    return false, passes and 1 or 0
  elseif not passes or passes >= call('ZCARD', lock.queue) then
    return true, outsiders
  end
  return type(pcall('INCR', key)) == 'table', outsiders -- if it is spoilt, their turn sets it anew
end

-- Reports whether outsiders had their turn lately.
local function turns_lately(lock)
  return pcall('EXISTS', 'lockagent_turn' .. lock.suffix) == 1
end

-- Leaves a free lock to the outsiders. A tenure lasts 5 ms while there are some. They get as much as so many agents
-- together, and once more.
local yield, most_yield, turn_every = 5000, 50000, 250 -- in microseconds, and in ms
local function turns_yield(lock, time, agents)
  note(lock.suffix, time.now, 'yield', time.now + math.min(most_yield, (agents + 1) * yield))
  pcall('SET', 'lockagent_turn' .. lock.suffix, '0', 'PX', turn_every)
end

-- Returns for how many more microseconds a free lock is kept from agents. That is 0 if it is more than a turn lasts:
-- then the clock was set back.
--   till  the score of the note "yield" or "polls", or nil
local turn_lasts = 150000 -- in microseconds
local function turns_kept(time, till)
  local left = till and till - time.now or 0
  return left > 0 and left <= turn_lasts and left or 0
end

-- Notes that a program which is no agent has the lock. Agents then begin to contend anew.
local function turns_met_foreign(lock, time)
  note(lock.suffix, time.now, 'foreign', time.now)
  pcall('ZREM', 'lockagent_notes' .. lock.suffix, 'contended')
end

-- Begins a turn of those that poll, and returns how long it lasts. If there is one, it begins anew.
local function turns_begin(lock, time)
  note(lock.suffix, time.now, 'polls', time.now + turn_lasts)
  pcall('ZREM', 'lockagent_notes' .. lock.suffix, 'contended')
  return turn_lasts
end

-- An agent is about to be granted a lock that is free. Returns for how many more microseconds it is the turn of those
-- that poll, or 0. A turn begins if agents have contended for long.
--   contends  whether the agent found the lock busy, or others wait. An agent that does not contend ends the
--             contention, unless it comes in between others that do
local contend_for, contend_pause = 500000, 100000 -- in microseconds
local function turns_foreign(lock, time, contends)
  local notes, now = 'lockagent_notes' .. lock.suffix, time.now
  local seen = pcall('ZMSCORE', notes, 'polls', 'foreign', 'contended', 'last')
  local left = turns_kept(time, seen[1])
  if left > 0 or not seen[2] or turns_lately(lock) then
    return left
  end
  local since = seen[3] and tonumber(seen[3])
  if not contends then
    if since and now - (seen[4] or 0) > contend_pause then
      pcall('ZREM', notes, 'contended')
    end
    return 0
  elseif since and now - since >= contend_for then
    return turns_begin(lock, time)
  elseif not since or since > now then
    note(lock.suffix, now, 'contended', now)
  end
  note(lock.suffix, now, 'last', now)
  return 0
end

-- Returns within how many ms the first waiter has to ask again while no agent has the lock: soon in a turn of those
-- that poll, and soon after it. polls is the score of the note, or nil.
local soon_after, look_soon, ask_every = 1000000, '10', '1000' -- in microseconds, and in ms
local function turns_ask_within(time, polls)
  return polls and math.abs(time.now - polls) < soon_after and look_soon or ask_every
end
