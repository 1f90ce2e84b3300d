-- foreign.lua is a part of other scripts: programs that poll a lock get turns at it, if one of them had it lately. It
-- needs call, pcall and clock before it.
--
-- Such a program tries again and again, and leaves no trace at the lock. While agents contend, the lock is hardly ever
-- free when it tries. So the lock is left free for a while, whenever agents have contended for long. The notes of the
-- lock have these members:
--   foreign    when an agent last met a holder that is no agent. Without it there are no turns
--   contended  since when agents contend, and have the lock
--   last       when an agent that contends was last granted the lock
--   polls      when a turn is over

--include old_notes.lua

local contend_for, contend_pause, turn_lasts, soon_after = 500000, 100000, 150000, 1000000 -- in microseconds
local look_soon = '10' -- in ms: in a turn, and soon after it, the first waiter looks so often who has the lock

-- Notes that a program that is no agent has the lock. Agents then begin to contend anew.
local function met_foreign(suffix)
  note(suffix, clock, 'foreign')
  pcall('ZREM', 'lockagent_notes' .. suffix, 'contended')
end

-- Returns how much is left of a turn, or nil. polls is the score of the note. It is later only if the clock was set
-- back.
local function turn_left(polls)
  local left = polls and polls - clock or 0
  return left > 0 and left <= turn_lasts and left or nil
end

-- Begins a turn. If there is one, it begins anew.
local function begin_turn(suffix)
  note(suffix, clock + turn_lasts, 'polls')
  pcall('ZREM', 'lockagent_notes' .. suffix, 'contended')
  return turn_lasts
end

-- An agent is about to be granted a lock that is free. Returns how much is left of a turn: then the agent must wait. A
-- turn begins if agents have contended for long. contends says that the agent found the lock busy, or that others wait.
-- An agent that does not contend ends the contention, unless it comes in between others that do.
local function foreign_turn(suffix, contends)
  local notes = 'lockagent_notes' .. suffix
  local seen = pcall('ZMSCORE', notes, 'polls', 'foreign', 'contended', 'last')
  local left = turn_left(seen[1])
  if left or not seen[2] then
    return left
  end
  if pcall('EXISTS', 'lockagent_turn' .. suffix) == 1 then
    return nil -- an outsider had its turn just now
  end
  local since = seen[3] and tonumber(seen[3])
  if not contends then
    if since and clock - (seen[4] or 0) > contend_pause then
      pcall('ZREM', notes, 'contended')
    end
    return nil
  elseif since and clock - since >= contend_for then
    return begin_turn(suffix)
  elseif not since or since > clock then
    note(suffix, clock, 'contended')
  end
  note(suffix, clock, 'last')
  return nil
end
