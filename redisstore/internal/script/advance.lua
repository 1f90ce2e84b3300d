-- advance.lua is a part of scripts that acquire.

--include clock.lua

--include grace.lua

-- Finds a name for a database that has none, as incarnation.lua does. It begins a grace period if the incarnation that
-- the agent knew had one.
--   first  what the clock shows
--   known  the incarnation that the agent knows
-- Returns the name, and for how many microseconds the grace period lasts, or nil.
local function clock_begin(key, first, server, known)
  local server_says, left = pcall('INFO', 'server'), nil -- not every user may
  local run = string.match(type(server_says) == 'string' and server_says or '', 'run_id:(%x+)') or ''
  local name = first .. '.' .. string.sub(run, 1, 16)
  if string.find(known, '^%d+%.%x*%.') then
    name, left = name .. '.' .. string.format('%.0f', server), grace_settles
    grace_begin(key, server, left, {})
  end
  pcall('PUBLISH', 'lockagent_incarnation', '') -- holders that do not call have to hear of it
  return name, left
end

-- Moves the clock on to the token with which tenures begin now. It never goes back.
--   key     the name of the clock
--   told    the greatest time that the agent knows, as ARGV[1] of acquire.lua
--   name    the incarnation that the agent knows, as ARGV[2] of acquire.lua
--   seen    what TIME has replied
--   raised  the time as a text if the clock was raised to it already, see quick.lua
-- Returns a time and the first line of the reply, or nil and an error reply. In a grace period the error is
-- "GRACE <ms that are left> <at> <incarnation>". The period begins if the database has no name, unless the agent knows
-- one without a grace period.
local function clock_advance(key, told, name, seen, raised)
  local server = seen[1] * 1000000 + seen[2]
  if raised then
    return {
      key = key, server = server, now = server, last = server, shown = raised, token = raised, member = name,
      ahead = '0',
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
    local left
    left, member = grace_left(key, member, last, server)
    local known = string.match(member or '', '^%d+%.%x*%.?%d*')
    if not known then
      known, left = clock_begin(key, first, server, name)
      if left then
        call('ZADD', key, first, known .. (ahead and ' +' or '') .. ' ~')
        if member then
          call('ZREM', key, member)
        end
      end
    end
    if left then
      return nil, redis.error_reply('GRACE ' .. math.ceil(left / 1000) .. ' ' .. first .. ' ' .. known)
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
  }, reply
end
