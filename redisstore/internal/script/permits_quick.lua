-- permits_quick.lua is a part of permits_acquire.lua: the short way of one permit, without a place. Usually nobody
-- waits, a permit is free, and the clock has moved on. If nobody has permits, there is no other key. The rest of the
-- script would find nothing else, but make many functions. KEYS are in the order of permits.go.
local at = seen[1] .. string.sub('00000' .. seen[2], -6)
if ARGV[11] == '1' and ARGV[12] == '' and ARGV[7] + 0 < at + 0 and call('EXISTS', KEYS[2], unpack(KEYS, 4)) == 0 then
  local clock, name = KEYS[3], ARGV[8]
--include present.lua
  local lock, taken, tenures, ids, with_ids = KEYS[1], KEYS[2], KEYS[4], KEYS[5], ARGV[1] == 'permits'
  local free, tenure, lease = pcall('GETRANGE', lock, '0', '-1'), ARGV[9], ARGV[10] + 0
  if present and type(free) == 'string' and #free <= 14 and string.find(free, '^[1-9]%d*$') and
    pcall('ZADD', clock, 'XX', 'GT', 'CH', at, name) == 1 then
    local left, till = call('PTTL', lock), string.format('%.0f', math.ceil(at / 1000) + lease)
    local longer = string.format('%.0f', math.max(left, lease) + (with_ids and 1 or 100) * 86400000) -- see permits.lua
    call('HSET', taken, tenure, '1')
    call('PEXPIRE', taken, longer)
    call('ZADD', tenures, till, tenure)
    call('PEXPIRE', tenures, longer)
    if with_ids then
      call('ZADD', ids, till, permit_id(tenure, 1))
      if left >= 0 then
        call('PEXPIRE', ids, left)
      end
    end
    call('INCRBY', lock, '-1')
    return at .. '\n1 p ' .. at .. ' 0 ' .. free
  end
end
