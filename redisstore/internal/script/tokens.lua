-- tokens.lua is a part of scripts that acquire. It tells the time, and sets the token with which a
-- tenure begins now.
--
-- It reads: keys[2 * n + 1], the clock; args[1] and args[2], see acquire.lua; at, the time of the
-- server; raised, whether the clock is known to have moved on. It sets: name, the incarnation;
-- clock and first, the token as a number and as a text; reply, the first line of the reply; kept,
-- whether the clock has the token. It may end the script.

-- The clock never goes back. first is the token of the tenures that begin now.
local day, minute, jitter, greatest_token = 86400e6, 60e6, 100, 9007199254740991
local key, name, clock, first, reply, kept = keys[2 * n + 1], args[2], tonumber(at), at, at, true
if not raised then
  local entry = pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
  local key_ahead = 'lockagent_ahead' .. string.sub(key, 16)
  local ahead = pcall('GETRANGE', key_ahead, '0', '-1')
  local failed = entry.err or type(ahead) == 'table' and ahead.err
  local spoilt = failed and string.find(failed, 'WRONGTYPE', 1, true)
  if failed and not spoilt then
    return redis.error_reply(failed)
  end
  ahead = type(ahead) == 'string' and ahead ~= '' and ahead
  local server, known, member, guard = clock, args[1] + 0, entry[1], entry[2] or 0
  clock = server + (tonumber(ahead or 0) or greatest_token)
  local floor = string.sub(args[1], 1, 1) == '+'
  if known > math.max(clock, guard) + day then
    return redis.error_reply(floor and 'FAR ' .. string.match(args[1], '[1-9]%d*') or
      'ERR the clock is more than a day behind what the agent knows: set the clock of the server right')
  end
  local least = math.max(guard, known) + 1
  if least > clock + jitter then
    -- The clock of the server was set back, or is behind. Greater tokens may be known elsewhere.
    local exact = known > guard + 0 and string.sub(args[1], 1, 2) == '+0' -- nothing above it was given out
    clock = exact and least or least + minute
    ahead = string.format('%.0f', clock - server)
    if not spoilt and clock <= greatest_token then
      call('SET', key_ahead, ahead)
    end
  end
  clock = math.max(clock, least)
  if spoilt or not (clock <= greatest_token) then -- it may be not a number
    return redis.error_reply('TOKENS ' .. key .. ' and ' .. key_ahead)
  end
  first = string.format('%.0f', clock)

  local node
  if name == '-' then
    node = pcall('CLUSTER', 'MYID')
    node = type(node) == 'string' and node or '-'
  else
    name = string.match(member or '', '^%d+%.%x*')
    if not name then
      local server_says = pcall('INFO', 'server') -- not every user may
      local run = string.match(type(server_says) == 'string' and server_says or '', 'run_id:(%x+)') or ''
      name = first .. '.' .. string.sub(run, 1, 16) -- as incarnation.lua does
      pcall('PUBLISH', 'lockagent_incarnation', '') -- holders that do not call have to hear of it
    end
  end
  reply = first .. ' ' .. (node or name) .. ' ' .. (ahead or '0')
  name = name .. (ahead and ' +' or '')
  kept = false
  if name ~= member then
    call('ZADD', key, first, name) -- first, because an empty zset has no key
    if member then
      call('ZREM', key, member)
    end
    kept = true
  end
end
