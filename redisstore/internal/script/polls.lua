-- polls.lua is a part of other scripts: it lets programs have a lock that poll it.
--
-- Such a program tries again and again, and leaves no trace at the lock. While agents contend without a pause, the
-- lock is hardly ever free when it tries. So after some time the store keeps the lock free for a while, if anybody
-- polls.
--
-- lockagent_busy:{N} is "<since> <last>": the lock was not free from the one time to the other, but for pauses. last is the
-- tenure that has the lock, or "free <time>" if a tenure ended then, or "rests <time>" if one began then that may rest. Or it is "<since> ends <ms>": when a waiter asked at that
-- time and since then, no agent had the lock, and the lease ended in that ms. That is 0 if the lease has no end.

local busy_before_turn, turn_lasts, remembered = 500000, 150000, 5000000 -- in microseconds, as are all times

-- Notes since when a lock is busy, or has the same holder.
local function busy(suffix, since, last)
  pcall('SET', 'lockagent_busy' .. suffix, string.format('%.0f ', since) .. last, 'PX', '300000')
end

--include polled.lua
