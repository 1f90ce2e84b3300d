-- polls.lua is a part of other scripts: it lets programs have a lock that poll it.
--
-- Such a program tries again and again, and leaves no trace at the lock. While agents contend without a pause, the
-- lock is hardly ever free when it tries. So after some time the store keeps the lock free for a while, if anybody
-- polls.
--
-- lockagent_busy:{N} is "<since> <last>": the lock was not free from the one time to the other, but for pauses. last is the
-- tenure that has the lock, or "free <time>" if a tenure ended then.

local busy_before_turn, turn_lasts = 500000, 150000 -- in microseconds, as are all times

-- Notes since when a lock is busy.
local function busy(suffix, since, last)
  pcall('SET', 'lockagent_busy' .. suffix, string.format('%.0f ', since) .. last, 'PX', '300000')
end

-- Reports whether anybody polls a lock. An attempt of Redisson's that finds a lock held calls HEXISTS, and no script of ours
-- does. So while the server counts no such calls, nobody polls. If it does, they may be about other locks, or about no lock.
--
-- suffix is that of the clock. value is what lockagent_polls has, or nil if that is not known:
-- "<time of the last look> <calls until then> <when somebody polled last>".
local function polled(suffix, clock, value)
  local look_every, slowest_poll, remembered = 500000, 250000, 5000000
  local key = 'lockagent_polls' .. suffix
  if value == nil then
    value = pcall('GET', key)
  end
  local looked, before, last = string.match(type(value) == 'string' and value or '', '^(%d+) (%d+) (%d+)$')
  local since = clock - (looked or 0)
  if since < 0 or since >= look_every then
    local stats = pcall('INFO', 'commandstats')
    local calls = string.match(type(stats) == 'string' and stats or '', 'cmdstat_hexists:calls=(%d+)') or '0'
    last = looked and since > 0 and (calls - before) * slowest_poll >= since and clock or last or 0
    pcall('SET', key, string.format('%.0f %s %.0f', clock, calls, last), 'PX', '60000')
  end
  return last + 0 > 0 and clock - last < remembered
end
