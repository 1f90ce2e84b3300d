-- latch.lua reads or changes the count of a latch. The key and the messages are Redisson's.
--
-- KEYS[1]  the latch: a string, the count. Without the key the latch is open
-- ARGV[1]  read, set, down or delete
-- ARGV[2]  the count to set
-- ARGV[3]  the id of the change, or "" to read
-- ARGV[4]  the name of the notes about the latch: a zset of the changes of the last minute, and of
--          ".opened", by the time in microseconds when the latch was last counted down to 0
-- ARGV[5]  PUBLISH or SPUBLISH
-- ARGV[6]  the latch's channel
--
-- Reply: "<at> <count> <changed> <opened>". changed is 1 if the change was made, now or before. opened is
-- 1 if the latch was counted down to 0 within the last minute. An error reply means that nothing was
-- changed.

local call, pcall = redis.call, redis.pcall
local latch, op, change, notes = KEYS[1], ARGV[1], ARGV[3], ARGV[4]
local kept = 60000 -- in ms
local most_removed = 2

local time = call('TIME')
local at = time[1] .. string.sub('00000' .. time[2], -6)
local count = call('GET', latch)
if count and not string.find(count, '^%-?%d+$') then
  return redis.error_reply('WRONGTYPE the value of the latch is no number')
end
local left = math.max(0, tonumber(count or 0))

local opened = call('ZSCORE', notes, '.opened')
local changed = change ~= '' and call('ZSCORE', notes, change)
local late = string.format('%.0f', at - kept * 1000)
if opened and left > 0 then
  call('ZREM', notes, '.opened') -- Redisson has set the latch again
  opened = false
end
opened = opened and opened + 0 > late + 0
changed = changed and changed + 0 > late + 0
if change ~= '' and not changed and (op == 'set') == (left == 0) then
  changed = true
  call('ZADD', notes, at, change) -- first: if the server is full, nothing is changed
  call('PEXPIRE', notes, kept)
  if op == 'set' then
    left, opened = ARGV[2], false
    call('SET', latch, left)
    pcall(ARGV[5], ARGV[6], '1')
  elseif op == 'down' and left > 1 then
    left = call('DECR', latch)
  else
    left, opened = 0, op == 'down'
    call('DEL', latch)
  end
  if opened then
    call('ZADD', notes, at, '.opened')
  else
    call('ZREM', notes, '.opened')
  end
  if left == 0 then
    pcall(ARGV[5], ARGV[6], opened and '0' or '1')
  end
  local old = call('ZRANGEBYSCORE', notes, '-inf', late, 'LIMIT', 0, most_removed)
  if old[1] then
    call('ZREM', notes, unpack(old))
  end
end
return at .. ' ' .. string.format('%.0f', left) .. ' ' .. (changed and 1 or 0) .. ' ' .. (opened and 1 or 0)
