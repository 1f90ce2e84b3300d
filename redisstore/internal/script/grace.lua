-- grace.lua is a part of other scripts: the grace period with which an incarnation begins, see lockagent.Grace. Only
-- incarnations with three parts in their names have one, see incarnation.lua. While the period lasts, the member of the
-- clock ends with " ~", so no short way of an acquire finds the name that it knows. In a Cluster that is the clock
-- which is the home. The other clocks of the node have the name of the incarnation before, or none.
--
-- The zset lockagent_grace has the agents for which the period waits, with the times until which it does so, in
-- microseconds of the server's own clock. The time is 0 if the agent has come back. "-" is no agent: its time is the
-- earliest end. The zset lockagent_claims has the greatest token with which a lock was claimed: "w <lock>" by a tenure
-- that has it alone, and "r <lock>" by a reader. In a Cluster each slot has such a zset for the incarnation, for a day.

--include clock.lua

--include kinds.lua

local grace_settles = 500000 -- in microseconds: for how long agents may come that nobody knew

-- Returns the names of the two zsets. key is the name of the clock.
local function grace_keys(key)
  local suffix = string.sub(key, 16)
  return 'lockagent_grace' .. suffix, 'lockagent_claims' .. suffix
end

-- Begins a grace period. The caller makes the member of the clock end with " ~".
--   server  the server's own time
--   least   for how many microseconds it lasts at least
--   roll    the agents that may have tenures: "<lease in ms> <agent>"
local function grace_begin(key, server, least, roll)
  local waits, claims = grace_keys(key)
  local awaited = call('ZRANGEBYSCORE', waits, string.format('(%.0f', server), '+inf', 'WITHSCORES')
  call('DEL', waits, claims)
  for i = 1, #awaited, 2 do -- for these the period before has waited, although their entries may be forgotten
    call('ZADD', waits, awaited[i + 1], awaited[i])
  end
  call('ZADD', waits, string.format('%.0f', server + least), '-')
  for _, entry in ipairs(roll) do
    local lease, agent = string.match(entry, '^(%d+) (%S+)$')
    if lease then
      call('ZADD', waits, 'GT', string.format('%.0f', server + lease * 1000), agent)
    end
  end
end

-- Has a grace period wait for agents of which another one tells.
--   began  when the period began
--   knew   whether that agent knew the database: then others that did come soon
--   roll   as in grace_begin
local function grace_join(key, began, knew, roll)
  local waits = grace_keys(key)
  if knew then
    call('ZADD', waits, 'LT', string.format('%.0f', began + grace_settles), '-')
  end
  for _, entry in ipairs(roll) do
    local lease, agent = string.match(entry, '^(%d+) (%S+)$')
    if lease then
      call('ZADD', waits, 'NX', string.format('%.0f', began + lease * 1000), agent)
    end
  end
end

-- Returns for how many microseconds a grace period lasts, which is over if that is not above 0.
local function grace_lasts(key, server)
  return (call('ZRANGE', grace_keys(key), -1, -1, 'WITHSCORES')[2] or 0) - server
end

-- Returns the agents that have not come back, and for which a grace period waits until a time or longer.
local function grace_awaited(key, server)
  local awaited = {}
  for _, agent in ipairs(pcall('ZRANGEBYSCORE', grace_keys(key), string.format('(%.0f', server), '+inf')) do
    awaited[#awaited + 1] = agent ~= '-' and agent or nil
  end
  return awaited
end

-- Ends a grace period if it is over, and tells the agents: "over <at> <incarnation> <agents that have not come back>".
--   key     the name of the clock
--   member  of the clock
--   last    the score of the clock
--   server  the server's own time
-- Returns for how many microseconds the period lasts, or nil if there is none, and the member that the clock has now.
local function grace_left(key, member, last, server)
  local plain = string.match(member or '', '^(.*) ~$')
  if not plain then
    return nil, member
  end
  local left = grace_lasts(key, server)
  if left > 0 then
    return left, member
  end
  local waits, claims = grace_keys(key)
  local absent = table.concat(grace_awaited(key, 0), ' ')
  call('ZADD', key, string.format('%.0f', last), plain)
  call('ZREM', key, member)
  call('DEL', claims)
  call('PEXPIRE', waits, 60000) -- a look may see the end before the message arrives
  pcall('PUBLISH', 'lockagent_incarnation',
    string.format('over %.0f %s %s', math.max(server, last), string.match(plain, '^%S+'), absent))
  return nil, plain
end

-- Returns the name of the present incarnation, for how many microseconds its grace period lasts, or nil, and the member
-- that the clock has now. The name is nil if the incarnation has none, or if the period is over and nobody has looked
-- at the home since.
--   key, member, last, server  see clock.lua
--   name                       the incarnation that the agent knows, as ARGV[2] of acquire.lua
local function grace_present(key, member, last, server, name)
  local home, left = clock_home(key, member, name), nil
  if home == member then
    left, member = grace_left(key, member, last, server)
    home = member
  elseif home and string.find(home, '~', 1, true) then
    left = grace_lasts('lockagent_clock:{' .. string.match(home, '@(%d+)') .. '}', server)
    home = left > 0 and home
  end
  return string.match(home or '', '^%d+%.%x*%.?%d*@?%d*'), left, member
end

-- Returns the error of a call to which the incarnation has no answer: a grace period goes on, or the incarnation has no
-- name. Otherwise it returns nil.
--   known, left  see grace_present
--   shown        the time as a text
--   name         as there
local function grace_error(known, left, shown, name)
  if not known then
    return redis.error_reply('LOOK ' .. name)
  elseif left then
    return redis.error_reply('GRACE ' .. math.ceil(left / 1000) .. ' ' .. shown .. ' ' .. known)
  end
end

-- Returns the error of a call that depends on who has a lock, or nil if no tenure may be put back.
--   name  the incarnation that the agent knows, as ARGV[2] of acquire.lua
local function grace_refuses(time, name)
  if name == '-' or time.spoilt then -- there is no incarnation, or nobody is granted anything
    return nil
  end
  local known, left
  known, left, time.member = grace_present(time.key, time.member, time.last, time.server, name)
  return grace_error(known, left, clock_shows(time), name)
end

-- Returns an error if the grace period of an incarnation is over, or nil. Then time.claims is the zset of the claims.
local function grace_over(time, name)
  local begun = string.match(clock_home(time.key, time.member, name) or '', '^(%S+) .*~$')
  if begun ~= name then
    return redis.error_reply('LOOK ' .. name)
  end
  local _, claims = grace_keys(time.key)
  time.claims = string.find(name, '@', 1, true) and claims .. ':' .. name or claims
  pcall('ZREM', time.claims, '') -- after a first write a server that is full takes others
end

-- Takes note of a claim, until the period ends.
local function grace_note(time, member, last)
  call('ZADD', time.claims, 'GT', string.format('%.0f', last), member)
  if time.key ~= 'lockagent_clock' then
    call('PEXPIRE', time.claims, day / 1000) -- the end of the period does not remove them
  end
end

-- Reports whether a tenure may have a lock, and takes note of its claim. The claims of others are greater if they began
-- later: then the tenure is the one that was before.
--   last   the last token of the tenure
--   reads  whether the tenure shares the lock with readers
local function grace_claim(time, lock, last, reads)
  local writes = call('ZSCORE', time.claims, 'w ' .. lock) or 0
  local shares = not reads and call('ZSCORE', time.claims, 'r ' .. lock) or 0
  if last == 0 or math.max(writes, shares) > last then
    return false
  end
  grace_note(time, (reads and 'r ' or 'w ') .. lock, last)
  clock_raise(time, last)
  return true
end

