-- broken.lua is a part of scripts that break a lock. It deletes the key and tells the agent of the holder,
-- or ends the script. message_kind comes before the message.

--include clock.lua

--include holders.lua

--include still.lua

local moving = room ~= 'single' and moves(lock, ARGV[2])
if moving then
  return moving
end
local at, _, now = time_of(ARGV[2])
local err, holder, count, _, mode = holders(lock)
if err then
  return redis.error_reply(err)
elseif mode then
  return redis.error_reply('KIND readwrite')
elseif not holder then
  return at .. ' 0'
end
local kind = kind_of_holder(holder, count)
if kind and kind ~= ARGV[5] then
  return redis.error_reply('KIND ' .. kind)
end
local uuid = string.gsub('8%-4%-4%-4%-12:', '[1-9]%d*', function(digits) return string.rep('%x', digits) end)
if not string.find(holder, uuid) then
  return redis.error_reply('WRONGTYPE the holder of the hash has no UUID')
end
call('DEL', lock)
local agent = string.match(holder, '^(.*):%d+$')
if agent then
  pcall('PUBLISH', 'lockagent_agent:' .. agent, message_kind .. 'broken ' .. holder .. ' ' .. at .. ' ' .. ARGV[4] .. ' ' .. lock)
end
