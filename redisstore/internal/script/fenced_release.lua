-- fenced_release.lua is release.lua for fenced locks, see fence.lua.
--
-- KEYS and ARGV are those of release.lua, with the following differences:
--   KEYS[2n+1+i]  the token key of lock i
--   ARGV[2]       is 0
--   the last n of ARGV are the last tokens of the tenures, or 0

--include fenced_free.lua

--include fence.lua

local n = (#all - 1) / 3
local per = (#given - n - 2) / n
local time = call('TIME')
local most = time[1] * 1000000 + time[2] + day
local used, fences, index = {}, {}, {}
local pass_lease = 2000 -- in ms, see begin.lua
for i = 1, n do
  local lock, key, last = all[i], all[#all - n + i], given[#given - n + i] + 0
  local fence = fence_of(key) or 0
  if last > math.max(most, fence + day) then
    last = 0 -- that is no token, and must not use up the others
  end
  if has(lock, given[per * (i - 1) + 3]) then
    -- Only the lease of the tenure may be taken off: another program may have moved the key, too.
    used[i] = math.max(last, fence - math.max(call('PTTL', lock), 0) * 1000)
  elseif last > fence then
    used[i] = last
  end
  fences[i], index[lock] = fence, i
end

local reply
do
  local redis = telling(function(lock, token, heard)
    local i = index[lock]
    if heard then
      used[i] = token + pass_lease * 1000 -- the lease began after the time of the token, so PTTL may tell less
    end
    return math.max(token, (used[i] or fences[i]) + 1)
  end)
  local KEYS, ARGV = {unpack(all, 1, #all - n)}, {unpack(given, 1, #given - n)}
  local function plain()
--include release.lua
  end
  reply = plain()
end
if type(reply) == 'table' then
  return reply
end
for i = 1, n do
  if used[i] and used[i] ~= fences[i] then
    keep(all[#all - n + i], used[i])
  end
end
return reply
