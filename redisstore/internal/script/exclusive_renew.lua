-- exclusive_renew.lua is a part of the scripts that renew plain, fair, spin and fenced locks.

--include clock.lua

--include answer.lua

-- Renews the tenures of renew.lua.
--   keys, args  KEYS and ARGV
--   extend      fence_extend if the locks are fenced, or nil
-- Returns the reply.
local function exclusive_renew(keys, args, extend)
  local n = #args / 2
  local time = clock_read(keys[n + 1], call('TIME'))
  local at = clock_shows(time)
  local reply = answer(at, n, nil, function(i)
    local lock, who, lease = keys[i], args[2 * i - 1], args[2 * i]
    local held = pcall('HMGET', lock, who)
    if not held[1] then
      -- What is no lock any more is not held.
      local over = not held.err or string.find(held.err, 'WRONGTYPE', 1, true)
      return over and 'n' or 'e ' .. held.err
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
  end)
  return clock_confirm(time) or reply
end
