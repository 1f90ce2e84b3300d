-- permits_reassert.lua puts a tenure of a semaphore back in a grace period, see grace.lua, and starts its lease anew.
-- It is called as permits_renew.lua, with more arguments.
--
-- ARGV[10]  the incarnation
-- ARGV[11]  the last token of the tenure, as in reassert.lua
-- ARGV[12]  the number of its permits
-- ARGV[13]  the number of all permits when it was granted those, or 0 if that is not known
--
-- Reply: as for reassert.lua, for one lock. If the database has forgotten the number of permits, the number comes back
-- with the first tenure. A tenure with a greater token corrects it. Nobody is to lose permits: the number of those that
-- are free may be below 0.

local call, pcall = redis.call, redis.pcall
local seen = call('TIME')

--include grace.lua

--include permits.lua

local time, who, last, total = clock_read(ARGV[6], seen), ARGV[7], ARGV[11] + 0, ARGV[13] + 0
local over = grace_over(time, ARGV[10])
if over then
  return over
end
local s, err = permits_read(KEYS[1], ARGV, seen)
if err or not s.free and total == 0 then
  return clock_shows(time) .. '\n1 n'
end
local back = permits_reclaim(s)
local n, own = permits_has(s, who)
if not own and last == 0 then
  return clock_shows(time) .. '\n1 n'
end
clock_raise(time, last)
local told = tonumber(call('ZSCORE', time.claims, 'n ' .. s.name) or nil)
if not s.free or told and told < last and total > 0 then
  if s.free then
    total = total - permits_taken(s)
  end
  call('SET', s.name, total)
  grace_note(time, 'n ' .. s.name, last)
  s.free = total
end
if own then
  permits_extend(s, who, n, ARGV[8] + 0)
else
  if n then
    permits_drop(s, who, n)
  end
  permits_take(s, who, ARGV[12] + 0, ARGV[8] + 0)
end
if back then
  permits_wake(s)
end
return clock_confirm(time) or clock_shows(time)
