-- exclusive.lua is a part of the scripts that acquire plain and fenced locks. lock is as in tenure.lua, and time as in
-- clock.lua.

--include tenure.lua

--include queue.lua

--include turns.lua

-- Returns the value of the field of a tenure that is about to be granted a lock, and asks to be one that may rest. It
-- is nil if others want the lock: then the tenure may not.
local function exclusive_rest(lock, who, outsiders)
  local places = outsiders == 0 and is_agent(who) and pcall('ZRANGE', lock.queue, 0, 1)
  return places and not places.err and (places[1] or who) == who and not places[2] and '1' .. lock.held_as or nil
end

-- Tries a lock.
--   first  the time with which the reply begins
--   who    the tenure
--   lease  in ms
--   asks   what the tenure asks for, see acquire.lua
-- Returns what there is to say about the lock, or nil.
local function exclusive_try(lock, time, first, who, lease, asks)
  local unqueued, rests = lock.room == 'unqueued', string.find(asks, '+rests', 1, true)
  local waits = asks ~= '' and not unqueued and (not rests or string.find(asks, '+place', 1, true))
  local notes = pcall('ZMSCORE', 'lockagent_notes' .. lock.suffix, who, 'yield', 'polls', 'foreign')
  if notes[1] then
    return 'w'
  end
  local left, holder, count, own = tenure_holder(lock, who)
  if not left then
    return 'e ' .. holder
  end
  local outsiders = (waits or rests) and ways_outsiders(lock.room, lock.channel, lock.suffix) or 0
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
      count = rests and not notes[4] and exclusive_rest(lock, who, outsiders)
    end
    local token, err = tenure_begin(lock, time, who, count or lock.held_as, lease, left, own)
    local contested = false
    if not token then
      return 'e ' .. err
    elseif waits then
      pcall('ZREM', lock.queue, who)
      contested = queue_contested(queue_front(lock), 1, nil)
    end
    local code = rests and count and 'r ' or contested and 'G ' or 'g '
    return (code ~= 'g ' or outsiders > 0 or token ~= first) and code .. token .. ' ' .. outsiders
  end
  local recalls = holder and may_rest(holder, count)
  local ours = (waits or recalls) and tenure_want(lock, who, holder)
  local queued = waits and queue_place(lock, time, who)
  -- An agent with an identity of the application's choice is known by its count, or because it listens.
  if holder and not ours and not is_agent(holder) and (waits or count ~= lock.held_as) then
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
end
