-- broken.lua is a part of scripts that break a lock with one holder.

--include grace.lua

--include holders.lua

--include still.lua

--include ways.lua

-- Deletes a lock, and tells the agent of the holder.
--   lock  the key
--   args  ARGV of break.lua
--   kind  what comes before the message, see tenure.lua
-- Returns the time, see clock.lua, and the reply that the lock was held. Otherwise it returns nil and the reply. In a
-- grace period nobody knows who has the lock: that is an error.
local function broken(lock, args, kind)
  local room, key, operator, meant, known = args[1], args[2], args[4], args[5], args[6]
  local moving = room ~= 'single' and moves(lock, key)
  if moving then
    return nil, moving
  end
  local time = clock_read(key, call('TIME'))
  local at, refused = clock_shows(time), grace_refuses(time, known)
  if refused then
    return nil, refused
  end
  local err, holder, count, _, mode = holders(lock)
  if err or mode then
    return nil, redis.error_reply(err or 'KIND readwrite')
  elseif not holder then
    return nil, at .. ' 0'
  end
  local held = kind_of_holder(holder, count)
  if held and held ~= meant then
    return nil, redis.error_reply('KIND ' .. held)
  elseif not has_uuid(holder) then
    return nil, redis.error_reply('WRONGTYPE the holder of the hash has no UUID')
  end
  call('DEL', lock)
  local agent = string.match(holder, '^(.*):%d+$')
  if agent then
    ways_tell(agent, kind .. 'broken ' .. holder .. ' ' .. at .. ' ' .. operator .. ' ' .. lock)
  end
  return time, at .. ' 1'
end
