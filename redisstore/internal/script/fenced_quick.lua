-- fenced_quick.lua is a part of fenced_acquire.lua: the short way of one tenure that asks for nothing beside the lock.
-- Usually there is no lock and no note, the clock has moved on, and the token key has a number. The rest of the script
-- would find nothing else, but make many functions.
if #keys == 4 and (#args == 5 or args[5] == '') and args[1] + 0 < at + 0 and args[#args] + 0 < at + 0 then
  local lock, clock, key, name, lease, most = keys[1], keys[3], keys[4], args[2], args[4], 9007199254740991
--include present.lua
  if present and call('EXISTS', lock, keys[2]) == 0 then
    local text = pcall('GETRANGE', key, '0', '-1')
    local none = text == '' and call('EXISTS', key) == 0
    local used = none and 0 or type(text) == 'string' and string.find(text, '^%d+$') and text + 0
    local ends = used and math.max(at + 0, used + 1) + lease * 1000
    if ends and ends < most and pcall('ZADD', clock, 'XX', 'GT', 'CH', at, name) == 1 then
      call('HSET', lock, args[3], '4') -- see kinds.lua
      call('PEXPIRE', lock, lease)
      call('SET', key, string.format('%.0f', ends)) -- without a TTL
      return used + 0 < at + 0 and at or at .. '\n1 g ' .. string.format('%.0f', used + 1) .. ' 0'
    end
  end
end
