-- fenced_renew.lua is renew.lua for fenced locks, see fence.lua.
--
-- KEYS and ARGV are those of renew.lua, and KEYS[n+1+i] is the token key of lock i.

--include fence.lua

local n = (#all - 1) / 2
local left = {}
for i = 1, n do
  left[i] = call('PTTL', all[i])
end
local reply
do
  local KEYS = {unpack(all, 1, #all - n)}
  local function plain()
--include renew.lua
  end
  reply = plain()
end
if type(reply) == 'table' then
  return reply
end
local unheld = {}
for i in string.gmatch(reply, '\n(%d+) ') do
  unheld[i + 0] = true
end
for i = 1, n do
  local key, lease = all[#all - n + i], given[2 * i] + 0
  local more = lease - math.max(left[i], 0)
  local fence, err = fence_of(key)
  if not unheld[i] and not err and (more > 0 or not fence) then
    keep(key, math.max((fence or 0) + more * 1000, string.match(reply, '^%d+') + lease * 1000))
  end
end
return reply
