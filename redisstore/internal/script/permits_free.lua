-- permits_free.lua is a part of permits_release.lua: the short way of a tenure without flags, which has one permit, and
-- whose token the clock has reached. Usually nobody waits, and no lease is over. The rest of the script would find
-- nothing else, but make many functions. KEYS are in the order of permits.go.
if ARGV[7] == '0' and ARGV[9] == '' and call('EXISTS', unpack(KEYS, 6)) == 0 then
  local lock, taken, tenures, ids, tenure = KEYS[1], KEYS[2], KEYS[4], KEYS[5], ARGV[8]
  local with_ids, clock, first_id, own_id = ARGV[1] == 'permits', seen[1] * 1000000 + seen[2], nil, nil
  local now = math.floor(clock / 1000)
  local free, first = pcall('GETRANGE', lock, '0', '-1'), pcall('ZRANGE', tenures, 0, 0, 'WITHSCORES')
  local sound = type(free) == 'string' and #free <= 14 and (free == '0' or string.find(free, '^%-?[1-9]%d*$')) and
    first[2] and first[2] + 0 > now and (first[1] == tenure or call('ZSCORE', tenures, tenure)) and
    pcall('HMGET', taken, tenure)[1] == '1'
  if sound and with_ids then
    first_id, own_id = pcall('ZRANGE', ids, 0, 0, 'WITHSCORES'), permit_id(tenure, 1)
    sound = first_id[2] and first_id[2] + 0 > now and (first_id[1] == own_id or call('ZSCORE', ids, own_id))
  elseif sound then
    sound = call('EXISTS', ids) == 0
  end
  if sound and pcall('HDEL', taken, tenure) == 1 then
    call('ZREM', tenures, tenure)
    if with_ids then
      call('ZREM', ids, own_id)
    end
    free = call('INCRBY', lock, '1')
    local heard = 0
    if free > 0 then
      local publish = ARGV[2] == 'sharded' and 'SPUBLISH' or 'PUBLISH'
      heard = pcall(publish, 'redisson_sc' .. ARGV[4], string.format('%.0f', free))
    end
    if heard == 0 or ARGV[2] == 'unqueued' then
      return clock
    end
    return string.format('%.0f', clock) .. '\n1 r ' .. (type(heard) == 'number' and heard or -1)
  end
end
