-- spin_acquire.lua is acquire.lua for spin locks, which have no queue.
--
-- KEYS, ARGV and the reply are those of acquire.lua. Nobody gets a place. A tenure that asks for one contends: its agent found the
-- lock busy, or returned it while requests waited.
--
-- Redisson's spin lock asks every 128 ms in the end. While agents contend, it finds the lock free only by luck. So it
-- gets turns, see foreign.lua.

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
--include foreign.lua

local message_kind = ''

--include grants.lua

-- Tries one lock, and returns what there is to say about it.
local function try(i)
  local a, lock = per * (i - 1) + 2, keys[i]
  local tenure, lease, contends = args[a + 1], args[a + 2], per == 3 and args[a + 3] ~= ''
  local suffix = string.sub(keys[n + i], 16)
--include met.lua
  if not holder then
    left = math.max(kept_for(notes[2], 50), kept_for(notes[3], turn_lasts / 1000))
  elseif not is_agent(holder) and count ~= held_as then
    met_foreign(suffix)
  end
  local theirs = not own and not holder and left <= 0 and notes[4] and foreign_turn(suffix, contends)
  if own or not holder and left <= 0 and not theirs then
    grant(lock, tenure, lease, own and left or -2, own)
    return token ~= first and 'g ' .. token .. ' 0'
  end
  if not holder and (theirs or turn_left(notes[3])) then
    left = look_soon -- somebody has to see who takes it
  end
  return 'h ' .. left .. ' 0 ' .. (holder or '')
end

--include answer.lua
