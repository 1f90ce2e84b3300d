-- rw_break.lua is break.lua for a read/write lock. It ends all tenures that share the lock, and sends the message
-- "readwrite broken <tenure> <at> <operator> <lock>" to the agent of each.

local call, pcall = redis.call, redis.pcall
local room = ARGV[1]

--include still.lua

local moving = room ~= 'single' and moves(KEYS[1], ARGV[2])
if moving then
  return moving
end

--include grace.lua

--include rw.lua

--include ways.lua

local lock, time = rw_lock(KEYS[1], own_suffix(KEYS[1]), room), clock_read(ARGV[2], call('TIME'))
local at, refused = clock_shows(time), grace_refuses(time, ARGV[6])
if refused then
  return refused
end
local err, mode, list = rw_look(lock, time)
if err then
  return redis.error_reply(err)
elseif not mode then
  return at .. ' 0'
elseif not has_uuid(list[1] or '') then
  return redis.error_reply('WRONGTYPE the holder of the hash has no UUID')
end
call('DEL', lock.name)
for _, field in ipairs(list) do
  local who = rw_tenure(field)
  local agent = string.match(who, '^(.*):%d+$')
  if agent then
    ways_tell(agent, lock.kind .. 'broken ' .. who .. ' ' .. at .. ' ' .. ARGV[4] .. ' ' .. lock.name)
    rw_drop(lock, who)
  end
end
pcall('DEL', lock.readers)
ways_publish(room, lock.channel, mode == 'write' and '1' or '0')
return at .. ' 1'
