-- advance.lua is a part of scripts that acquire.

--include clock.lua

--include grace.lua

-- Moves the clock on to the token with which tenures begin now. It never goes back.
--   key     the name of the clock
--   told    the greatest time that the agent knows, as ARGV[1] of acquire.lua
--   name    the incarnation that the agent knows, as ARGV[2] of acquire.lua
--   seen    what TIME has replied
--   raised  the time as a text if the clock was raised to it already, see quick.lua
-- Returns a time and the first line of the reply, or nil and an error reply. In a grace period the error is
-- "GRACE <ms that are left> <at> <incarnation>". If the incarnation has no name, the error is "LOOK <incarnation>": the
-- database is new, or has forgotten everything. The agent has to look at it first, and to tell who was on the roll: see
-- incarnation.lua.
local function clock_advance(key, told, name, seen, raised)
  local server = seen[1] * 1000000 + seen[2]
  if raised then
    return {
      key = key, server = server, now = server, last = server, shown = raised, token = raised, member = name,
      ahead = '0', grants = true,
    }, raised
  end
  local minute, jitter = 60e6, 100 -- in microseconds
  local entry, ahead_key = pcall('ZRANGE', key, -1, -1, 'WITHSCORES'), clock_ahead_key(key)
  local ahead = pcall('GETRANGE', ahead_key, '0', '-1')
  local failed = entry.err or type(ahead) == 'table' and ahead.err
  local spoilt = failed and string.find(failed, 'WRONGTYPE', 1, true)
  if failed and not spoilt then
    return nil, redis.error_reply(failed)
  end
  ahead = type(ahead) == 'string' and ahead ~= '' and ahead
  local member, last = entry[1], entry[2] or 0
  local now, known = server + (tonumber(ahead or 0) or greatest_token), told + 0
  if known > math.max(now, last) + day then
    return nil, redis.error_reply(string.sub(told, 1, 1) == '+' and 'FAR ' .. string.match(told, '[1-9]%d*') or
      'ERR the clock is more than a day behind what the agent knows: set the clock of the server right')
  end
  local least = math.max(last, known) + 1
  if least > now + jitter then
    -- The clock of the server was set back, or is behind. Greater tokens may be known elsewhere.
    local exact = known > last + 0 and string.sub(told, 1, 2) == '+0' -- nothing above it was given out
    now = exact and least or least + minute
    ahead = string.format('%.0f', now - server)
    if not spoilt and now <= greatest_token then
      call('SET', ahead_key, ahead)
    end
  end
  now = math.max(now, least)
  if spoilt or not (now <= greatest_token) then -- it may be not a number
    return nil, redis.error_reply('TOKENS ' .. key .. ' and ' .. ahead_key)
  end

  local first, node = string.format('%.0f', now), nil
  if name == '-' then
    node = pcall('CLUSTER', 'MYID')
    node = type(node) == 'string' and node or '-'
  else
    local known, left
    known, left, member = grace_present(key, member, last, server, name)
    local unknown = grace_error(known, left, first, name)
    if unknown then
      return nil, unknown
    end
    name = known
  end
  local reply = first .. ' ' .. (node or name) .. ' ' .. (ahead or '0')
  name = name .. (ahead and ' +' or '')
  if name ~= member then
    call('ZADD', key, first, name) -- first, because an empty zset has no key
    if member then
      call('ZREM', key, member)
    end
  end
  return {
    key = key, server = server, now = now, last = now - 1, shown = first, member = name, ahead = ahead or '0',
    grants = true,
  }, reply
end
