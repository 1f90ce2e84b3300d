-- rw_free.lua is a part of rw_release.lua: the short way of one tenure without flags, whose token the clock has
-- reached. Usually nobody waits, there is no note, and the tenure has the lock alone. The rest of the script would find
-- nothing else, but make many functions.
if n == 1 and args[5] == '' and args[2] == '0' then
  local server = seen[1] * 1000000 + seen[2]
  local lock, tenure, channel, suffix = keys[1], args[3], args[4], string.sub(keys[2], 16)
  local sharded, readers = args[1] == 'sharded', 'lockagent_readers' .. suffix
  -- While the slot moves, Redis refuses a command with several keys that are not there.
  local alone = pcall('EXISTS', keys[2], keys[3], 'lockagent_notes' .. suffix) == 0 and pcall('HLEN', lock) == 2 and
    (args[1] == 'unqueued' or pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)[2] == 0)
  local has = alone and call('HMGET', lock, 'mode', tenure, tenure .. ':write')
  local ended, payload
  if has and has[1] == 'write' and has[3] == '1' then
    ended, payload = pcall('DEL', lock), '1'
  elseif has and has[1] == 'read' and has[2] == '1' then
    local first = pcall('ZRANGE', readers, 0, 1, 'WITHSCORES') -- others may be over
    if first[1] == tenure and not first[3] and first[2] * 1000 > server then
      local timeout = string.match(suffix, '^::?(.*)$') .. ':' .. tenure .. ':rwlock_timeout:1' -- as in rw.lua
      ended, payload = pcall('DEL', lock, readers, timeout), '0'
    end
  end
  if type(ended) == 'number' then
    local heard = pcall(sharded and 'SPUBLISH' or 'PUBLISH', channel, payload)
    if heard == 0 or args[1] == 'unqueued' then
      return server
    end
    -- Those who subscribe to a pattern heard it.
    return string.format('%.0f', server) .. '\n1 r ' .. (type(heard) == 'number' and heard or -1)
  end
end
