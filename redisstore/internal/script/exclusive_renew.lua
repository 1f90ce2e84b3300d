-- exclusive_renew.lua is a part of the scripts that renew plain, fair, spin and fenced locks.

--include clock.lua

--include answer.lua

--include queue.lua

--include tenure.lua

-- Reports whether somebody waits for a lock.
--   room  how messages travel, or "fair"
local function exclusive_wanted(name, room)
  local suffix = own_suffix(name)
  if room == 'fair' then
    return pcall('EXISTS', 'redisson_lock_queue' .. their_suffix(suffix)) == 1
  end
  return queue_wanted(tenure_lock(name, suffix, room, '', ''))
end

-- Renews the tenures of renew.lua.
--   keys, args  KEYS and ARGV
--   extend      fence_extend if the locks are fenced, or nil
-- Returns the reply.
local function exclusive_renew(keys, args, extend)
  local n = extend and (#keys - 1) / 2 or #keys - 1
  local per = #args / n
  local time = clock_read(keys[n + 1], call('TIME'))
  local at = clock_shows(time)
  local reply = answer(at, n, nil, function(i)
    local a = per * (i - 1)
    local lock, who, lease, room = keys[i], args[a + 1], args[a + 2], per == 3 and args[a + 3] or ''
    local held = pcall('HMGET', lock, who)
    if not held[1] then
      -- What is no lock any more is not held.
      local over = not held.err or string.find(held.err, 'WRONGTYPE', 1, true)
      return over and (clock_grants(time) and 'n' or 'f') or 'e ' .. held.err
    end
    -- It is always a write: servers count replicas only for connections that wrote.
    local left = call('PTTL', lock)
    call('PEXPIRE', lock, math.max(left, lease))
    -- What is renewed does not rest, see kinds.lua. A full server lets only a script write that that has written.
    local kind = string.match(held[1], '^1(%d)$')
    if kind then
      call('HSET', lock, who, kind)
    end
    if extend then
      extend(keys[n + 1 + i], lease + 0, left, at + 0)
    end
    return room ~= '' and exclusive_wanted(lock, room) and 'w' or nil
  end)
  return clock_confirm(time) or reply
end
