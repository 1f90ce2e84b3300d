-- fenced_acquire.lua is acquire.lua for fenced locks, see fence.lua.
--
-- KEYS and ARGV are those of acquire.lua, with the following differences:
--   KEYS[2n+1+i]  the token key of lock i
--   ARGV[1]       has no floor
--   the last n of ARGV are the floors of the locks
--
-- The reply is that of acquire.lua. Each lock that was granted has a line. An error reply may begin with
-- "FAR" or "TOKENS", and is about one of the locks.

--include fenced_quick.lua

--include fence.lua

local n = (#all - 1) / 3
local per = (#given - n - 2) / n
local used, lasts = {}, {}
for i = 1, n do
  local lock, key, floor = all[i], all[#all - n + i], given[#given - n + i]
  local tenure, lease = given[per * (i - 1) + 3], given[per * (i - 1) + 4] + 0
  local fence, err = fence_of(key)
  if not err and floor + 0 > (fence or 0) + day then
    local time = call('TIME')
    err = floor + 0 > time[1] * 1000000 + time[2] + day and 'FAR ' .. floor
  end
  local left = call('PTTL', lock)
  if fence and left > 0 and has(lock, tenure) then
    fence, lease = fence - left * 1000, math.max(lease, left)
  end
  used[key], lasts[i] = math.max(fence or 0, floor), lease * 1000
  if not err and used[key] + lasts[i] >= greatest_token then
    err = 'TOKENS ' .. key
  end
  if err then
    return redis.error_reply(err)
  end
end

local reply
do
  local redis, KEYS, ARGV = telling(), {unpack(all, 1, #all - n)}, {unpack(given, 1, #given - n)}
  local function plain()
--include acquire.lua
  end
  reply = plain()
end
if type(reply) == 'table' then
  return reply
end

local said = {}
for i, line in string.gmatch(reply, '\n(%d+) ([^\n]*)') do
  said[i + 0] = line
end
local lines = {string.match(reply, '^[^\n]*')}
for i = 1, n do
  local key, line = all[#all - n + i], said[i] or 'g ' .. string.match(reply, '^%d+') .. ' 0'
  local code, token, outsiders = string.match(line, '^([gr]) (%d+) (%d+)$')
  if token then
    token = math.max(token, used[key] + 1)
    used[key] = token
    keep(key, token + lasts[i])
    line = code .. ' ' .. string.format('%.0f', token) .. ' ' .. outsiders
  end
  lines[#lines + 1] = i .. ' ' .. line
end
return table.concat(lines, '\n')
