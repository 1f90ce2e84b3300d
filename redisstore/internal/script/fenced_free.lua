-- fenced_free.lua is a part of fenced_release.lua: the short way of one tenure without flags. Usually nobody waits,
-- and the tenure has the lock. The rest of the script would find nothing else, but make many functions.
if #keys == 4 and #args == 5 then
  local lock, key, tenure, channel, sharded = keys[1], keys[4], args[3], args[4], args[1] == 'sharded'
  local text = call('EXISTS', keys[2], keys[3]) == 0 and pcall('GETRANGE', key, '0', '-1')
  local fence = type(text) == 'string' and string.find(text, '^%d+$') and text + 0
  local last, clock = args[5] + 0, seen[1] * 1000000 + seen[2]
  if fence and last <= fence and
    (args[1] == 'unqueued' or pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)[2] == 0) then
    local left = call('PTTL', lock)
    if pcall('HDEL', lock, tenure) == 1 then
      local heard = pcall(sharded and 'SPUBLISH' or 'PUBLISH', channel, '0')
      local used = math.max(last, fence - math.max(left, 0) * 1000)
      if used ~= fence then
        call('SET', key, string.format('%.0f', math.min(used, 9007199254740991))) -- without a TTL
      end
      if heard == 0 or args[1] == 'unqueued' then
        return clock
      end
      -- Those who subscribe to a pattern heard it.
      return string.format('%.0f', clock) .. '\n1 r ' .. (type(heard) == 'number' and heard or -1)
    end
  end
end
