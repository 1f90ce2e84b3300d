-- exclusive.lua is the long way of the scripts that acquire plain and fenced locks. The scripts have set: what
-- request.lua sets, raised and rest as quick.lua, kind and held_as as in tenure.lua, and raise. If the locks
-- are fenced, that is fence_raise, and the last n of KEYS are token keys, and the last n of ARGV are floors.

--include still.lua
local moving = args[2] == '-' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

--include advance.lua
local time, reply = clock_advance(keys[2 * n + 1], args[1], args[2], seen, raised and at)
if not time then
  return reply
end

--include tenure.lua

--include queue.lua

--include turns.lua

--include answer.lua

-- Returns the value of the field of a tenure that is about to be granted the lock, and asks to be one that may rest. It
-- is nil if others want the lock: then it may not.
local function rest_of(lock, who, outsiders)
  local places = outsiders == 0 and is_agent(who) and pcall('ZRANGE', lock.queue, 0, 1)
  return places and not places.err and (places[1] or who) == who and not places[2] and '1' .. held_as or nil
end

local first = clock_shows(time) -- the first line of the reply begins with it

-- Tries one lock, and returns what there is to say about it.
return answer(reply, n, rest, function(i)
  local a, suffix = per * (i - 1) + 2, string.sub(keys[n + i], 16)
  local who, lease, asks = args[a + 1], args[a + 2], per == 3 and args[a + 3] or ''
  local lock = {
    name = keys[i], kind = kind, suffix = suffix, room = string.match(asks, '^%a+'), held_as = held_as,
    queue = 'lockagent_queue' .. suffix, channel = 'redisson_lock__channel' .. their_suffix(suffix),
    fence = raise and {raise = raise, key = keys[#keys - n + i], floor = args[#args - n + i] + 0},
  }
  local unqueued, rests = lock.room == 'unqueued', string.find(asks, '+rests', 1, true)
  local waits = asks ~= '' and not unqueued and (not rests or string.find(asks, '+place', 1, true))
  local notes = pcall('ZMSCORE', keys[n + i], who, 'yield', 'polls', 'foreign')
  if notes[1] then
    return 'w'
  end
  local left, holder, count, own = tenure_holder(lock, who)
  if not left then
    return 'e ' .. holder
  end
  local outsiders = (waits or rests) and ways_outsiders(lock.room, lock.channel, suffix) or 0
  local kept = 0 -- how long a free lock is kept from the tenure, in microseconds
  if not holder then
    kept = math.max((unqueued or waits and outsiders == 0) and 0 or turns_kept(time, notes[2]),
      turns_kept(time, notes[3]))
  end
  local open = own or not holder and kept == 0
  if open and (waits or rests) and outsiders == 0 then
    outsiders = turns_lately(lock) and 1 or 0 -- one that had its turn lately comes back
  end
  if open and not own and notes[4] and outsiders == 0 then
    kept = turns_foreign(lock, time, waits)
    open, notes[3] = kept == 0, kept > 0 and time.now + kept or notes[3]
  end
  if open then
    if own then -- others may have met the tenure as it is
      count = may_rest(who, count) and count
    else
      count = rests and not notes[4] and rest_of(lock, who, outsiders)
    end
    local token, err = tenure_begin(lock, time, who, count or held_as, lease, left, own)
    if not token then
      return 'e ' .. err
    elseif waits then
      pcall('ZREM', lock.queue, who)
    end
    local code = rests and count and 'r ' or 'g '
    return (code == 'r ' or outsiders > 0 or token ~= first) and code .. token .. ' ' .. outsiders
  end
  local recalls = holder and may_rest(holder, count)
  local ours = (waits or recalls) and tenure_want(lock, who, holder)
  local queued = waits and queue_place(lock, time, who)
  -- An agent with an identity of the application's choice is known by its count, or because it listens.
  if holder and not ours and not is_agent(holder) and (waits or count ~= held_as) then
    turns_met_foreign(lock, time)
  end
  local within
  -- Nothing may tell when the lock is free again. The first in the queue asks for all.
  if queued and not ours and (holder or turns_kept(time, notes[3]) > 0) and queue_is_first(lock, who) then
    within = turns_ask_within(time, notes[3])
  end
  local code = within and 'k' or queued and 'q' or 'h'
  code = (recalls and string.upper(code) or code) .. (within and ' ' .. within or '')
  return code .. ' ' .. (holder and left or math.ceil(kept / 1000)) .. ' ' .. outsiders .. ' ' .. (holder or '')
end)
