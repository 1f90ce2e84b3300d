-- rw_quick.lua is a part of rw_acquire.lua: the short way of one tenure that asks for no place. Usually there is no
-- lock, no note and no reader, and the clock has moved on. The rest of the script would find nothing else, but make
-- many functions.
if n == 1 and string.sub(args[5], 1, 1) == '-' and args[1] + 0 < at + 0 then
  local lock, field, lease, suffix = keys[1], args[3], args[4], string.sub(keys[2], 16)
  local readers, reads = 'lockagent_readers' .. suffix, string.sub(field, -6) ~= ':write'
  local clock, name = keys[3], args[2]
--include present.lua
  local timeout = string.match(suffix, '^::?(.*)$') .. ':' .. field .. ':rwlock_timeout:1' -- as in rw.lua, if it reads
  -- While the slot moves, Redis refuses a command with several keys that are not there.
  if present and pcall('EXISTS', lock, keys[2], readers, timeout) == 0 and
    pcall('ZADD', clock, 'XX', 'GT', 'CH', at, name) == 1 then
    call('HSET', lock, field, '1', 'mode', reads and 'read' or 'write')
    call('PEXPIRE', lock, lease)
    if reads then
      pcall('SET', timeout, '1', 'PX', lease)
      pcall('ZADD', readers, string.format('%.0f', math.floor(at / 1000) + lease), field)
      pcall('PEXPIRE', readers, lease)
    end
    return at
  end
end
