-- exclusive_release.lua is a part of the scripts that release plain and fenced locks. lock is as in tenure.lua, and
-- time as in clock.lua.

--include tenure.lua

--include hand_on.lua

-- Begins a tenure that waits, see queue_pass. The lock may be held: another program may have put something there.
local function exclusive_take(lock, time, who)
  return call('EXISTS', lock.name) == 0 and tenure_begin(lock, time, who, lock.held_as, pass_lease, -2, true)
end

-- Takes a tenure back, see queue_pass.
local function exclusive_back(lock, time, who)
  local left = lock.fence and call('PTTL', lock.name)
  call('HDEL', lock.name, who)
  if lock.fence then
    lock.fence.lower(lock.fence.key, 0, left, time)
  end
end

-- Completes a release, after the field of the tenure was removed.
--   who      the tenure
--   flags    see release.lua
--   removed  what HDEL has replied
--   woken    how many waiters were woken already. Otherwise nil: there may be a queue
-- Returns what there is to say about the lock, or nil.
local function exclusive_end(lock, time, who, flags, removed, woken)
  if string.find(flags, 'u', 1, true) then
    note(lock.suffix, time.now, who, time.now)
  end
  if removed ~= 1 then
    return not_held(time, lock.name, who, removed, flags)
  elseif woken then
    return queue_woken(lock, time, flags, woken)
  end
  return (queue_hand_on(lock, time, {take = exclusive_take, back = exclusive_back}, '0', flags))
end
