-- rw_break.lua is break.lua for a read/write lock. It ends all tenures that share the lock, and sends the message
-- "readwrite broken <tenure> <at> <operator> <lock>" to the agent of each.

local call, pcall = redis.call, redis.pcall
local lock, room = KEYS[1], ARGV[1]

--include old_clock.lua

--include holders.lua

--include still.lua

local moving = room ~= 'single' and moves(lock, ARGV[2])
if moving then
  return moving
end
local at, _, server = time_of(ARGV[2])

--include rw.lua

local suffix = own_suffix(lock)
local err, mode, list = look(lock, suffix)
if err then
  return redis.error_reply(err)
elseif not mode then
  return at .. ' 0'
end
local uuid = string.gsub('8%-4%-4%-4%-12:', '[1-9]%d*', function(digits) return string.rep('%x', digits) end)
if not string.find(list[1] or '', uuid) then
  return redis.error_reply('WRONGTYPE the holder of the hash has no UUID')
end
call('DEL', lock)
pcall('DEL', 'lockagent_readers' .. suffix)
for _, field in ipairs(list) do
  local agent, tenure = string.match(field, '^([^:]*):%d+'), tenure_of(field)
  if mode == 'read' then
    pcall('DEL', timeout_key(suffix, tenure))
  end
  if agent then
    pcall('PUBLISH', 'lockagent_agent:' .. agent, 'readwrite broken ' .. tenure .. ' ' .. at .. ' ' .. ARGV[4] .. ' ' .. lock)
  end
end

--include old_ways.lua
pcall(publish, 'redisson_rwlock' .. their_suffix(suffix), mode == 'write' and '1' or '0')
return at .. ' 1'
