-- spin_acquire.lua is acquire.lua for spin locks, which have no queue.
--
-- KEYS, ARGV and the reply are those of acquire.lua. Nobody gets a place. A tenure that asks for one contends: its
-- agent found the lock busy, or returned it while requests waited. So the agent that has the lock is told that another
-- one wants it.
--
-- Redisson's spin lock asks every 128 ms in the end. While agents contend, it finds the lock free only by luck. So it
-- gets turns, see turns.lua.

--include request.lua

local held_as = '5' -- see kinds.lua

local quiet = (n == 1 and call('EXISTS', keys[1], keys[2]) or call('EXISTS', unpack(keys, 1, 2 * n))) == 0
--include quick.lua

--include still.lua
local moving = not raised and keys[2 * n + 1] ~= 'lockagent_clock' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

--include advance.lua
local time, reply = clock_advance(keys[2 * n + 1], args[1], args[2], seen, raised and at)
if not time then
  return reply
end

--include tenure.lua

--include turns.lua

--include answer.lua

local first = clock_shows(time) -- the first line of the reply begins with it

-- Tries one lock, and returns what there is to say about it.
return answer(reply, n, rest, function(i)
  local a, suffix = per * (i - 1) + 2, string.sub(keys[n + i], 16)
  local who, lease, contends = args[a + 1], args[a + 2], per == 3 and args[a + 3] ~= ''
  local lock = {name = keys[i], kind = 'spin ', suffix = suffix, held_as = held_as}
  local notes = pcall('ZMSCORE', keys[n + i], who, 'yield', 'polls', 'foreign')
  if notes[1] then
    return 'w'
  end
  local left, holder, count, own = tenure_holder(lock, who)
  if not left then
    return 'e ' .. holder
  end
  local kept, polled = 0, 0 -- how long a free lock is kept from the tenure, in microseconds, and for those that poll
  if holder and not is_agent(holder) and count ~= held_as then
    turns_met_foreign(lock, time)
  elseif not holder then
    polled = turns_kept(time, notes[3])
    kept = math.max(turns_kept(time, notes[2]), polled)
    if kept == 0 and notes[4] then
      polled = turns_foreign(lock, time, contends)
      kept = polled
    end
  end
  if own or not holder and kept == 0 then
    local token = tenure_begin(lock, time, who, held_as, lease, left, own)
    return token ~= first and 'g ' .. token .. ' 0'
  elseif holder then
    if contends then
      tenure_want(lock, who, holder)
    end
    return 'h ' .. left .. ' 0 ' .. holder
  end
  -- In a turn of those that poll, somebody has to see who takes the lock.
  return 'h ' .. (polled > 0 and look_soon or math.ceil(kept / 1000)) .. ' 0 '
end)
