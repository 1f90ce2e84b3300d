-- latch.lua reads or changes the count of a latch. The key and the messages are Redisson's.
--
-- KEYS[1]  the latch: a string, the count. Without the key the latch is open
-- KEYS[2]  the notes about the latch: a zset of changes, and of ".opened" if the latch was counted down to
--          0 lately. The scores are until when they count, in microseconds. It is declared, so that no node answers
--          without the notes while the slot migrates
-- ARGV[1]  read, set, down or delete
-- ARGV[2]  the count to set
-- ARGV[3]  the id of the change, or "" to read
-- ARGV[4]  for how many ms the notes count
-- ARGV[5]  how messages travel, see release.lua
-- ARGV[6]  the latch's channel
--
-- Reply: "<at> <count> <changed> <opened>". changed is 1 if the change was made, now or before. opened is
-- 1 if the latch was counted down to 0 lately. An error reply means that nothing was
-- changed.

local call, pcall = redis.call, redis.pcall
local latch, notes, op, change, kept, room = KEYS[1], KEYS[2], ARGV[1], ARGV[3], ARGV[4] + 0, ARGV[5]
local most_removed = 2

--include number.lua

--include ways.lua

--include still.lua

local moving = room ~= 'single' and op ~= 'read' and moves(latch, notes)
if moving then
  return moving
end

local time = call('TIME')
local at = time[1] .. string.sub('00000' .. time[2], -6)
local count, err = number_of(latch, 18)
if err then
  return redis.error_reply(err)
end
local used = count and use_of_number(latch)
if used then
  return redis.error_reply('KIND ' .. used)
end
local left = math.max(0, tonumber(count or 0))

local opened = call('ZSCORE', notes, '.opened')
local changed = change ~= '' and call('ZSCORE', notes, change)
local till = string.format('%.0f', at + kept * 1000)
if opened and left > 0 then
  call('ZREM', notes, '.opened') -- Redisson has set the latch again
  opened = false
end
opened = opened and opened + 0 > at + 0
changed = changed and changed + 0 > at + 0
if change ~= '' and not changed and ((op == 'set') == (left == 0) or op == 'delete' and count) then
  changed = true
  call('ZADD', notes, till, change) -- first: if the server is full, nothing is changed
  if call('PTTL', notes) < kept then
    call('PEXPIRE', notes, kept)
  end
  if op == 'set' then
    local suffix = own_suffix(latch) -- of a semaphore that is gone, tenures must not find the latch
    pcall('DEL', 'lockagent_permits' .. suffix, 'lockagent_tenures' .. suffix, 'lockagent_taken' .. suffix)
    left, opened = ARGV[2], false
    call('SET', latch, left)
    ways_publish(room, ARGV[6], '1')
  elseif op == 'down' and left > 1 then
    left = call('DECR', latch)
  else
    left, opened = 0, op == 'down'
    call('DEL', latch)
  end
  if opened then
    call('ZADD', notes, till, '.opened')
  else
    call('ZREM', notes, '.opened')
  end
  if left == 0 then
    ways_publish(room, ARGV[6], opened and '0' or '1')
  end
  local old = call('ZRANGEBYSCORE', notes, '-inf', at, 'LIMIT', 0, most_removed)
  if old[1] then
    call('ZREM', notes, unpack(old))
  end
end
return at .. ' ' .. string.format('%.0f', left) .. ' ' .. (changed and 1 or 0) .. ' ' .. (opened and 1 or 0)
