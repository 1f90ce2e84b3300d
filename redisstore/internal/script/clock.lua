-- clock.lua is a part of other scripts: the clock of the locks. No part reads a variable of the script, but for call
-- and pcall, which are redis.call and redis.pcall.
--
-- The clock is a zset of one member, the name of the incarnation. After the name comes " +" if the clock is ahead of
-- the server's, and " ~" in a grace period, see grace.lua. The score is the greatest time or token that the scripts
-- have given out. The key lockagent_ahead has by how many microseconds the clock is ahead.
--
-- In a Cluster each slot has a clock, which moves with the slot. One of them, in the last slot of a node, is the home
-- of the node's incarnation: see incarnation.lua. The name ends with "@" and the tag of that slot. The other clocks of
-- the node have the name that the home had when a tenure last began in their slots. So a script finds the home by the
-- name. It does not declare that key, which is at the same node. If the node had another home then, and another
-- incarnation has begun since, that clock names the present home. The name is "-" where several servers are behind one
-- address: they have no incarnation.
--
-- A time is a table:
--   key     the name of the clock
--   server  the server's own time in microseconds
--   now     the server's time, and by how much the clock is ahead
--   last    the greatest time or token that was given out, also if it is spoilt
--   shown   what the clock shows as a text, or nil: to make it takes as long as two commands
--   token   the token that clock_token has returned last, as a text
--   member  the name of the incarnation with what comes after it, or nil if the clock has none
--   spoilt  whether the clock cannot be read: then there is no member
--   ahead   by how many microseconds the clock is ahead, as a text
--   grants  what clock_grants has returned, or nil

local greatest_token, day = 9007199254740991, 86400e6 -- a day in microseconds
-- Returns the name of the key that has how far a clock is ahead.
local function clock_ahead_key(key)
  return 'lockagent_ahead' .. string.sub(key, 16)
end

-- Reads a clock.
--   key   its name
--   seen  what TIME has replied
-- Returns a time. The clock is not ahead if that key is spoilt: acquires tell of it.
local function clock_read(key, seen)
  local entry = pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
  local ahead = pcall('GETRANGE', clock_ahead_key(key), '0', '-1')
  local server, last = seen[1] * 1000000 + seen[2], tonumber(entry[2] or 0)
  if type(ahead) ~= 'string' or not string.find(ahead, '^%d+$') or server + ahead > greatest_token then
    ahead = '0'
  end
  return {
    key = key, server = server, now = server + ahead, last = last, member = entry[1], spoilt = entry.err ~= nil,
    ahead = ahead,
  }
end

-- Returns what the clock shows as a text. It never goes back. A spoilt token does not count.
local function clock_shows(time)
  if not time.shown then
    time.shown = string.format('%.0f', time.last <= greatest_token and math.max(time.now, time.last) or time.now)
  end
  return time.shown
end

-- Returns the member of the clock that is the home of an incarnation. It is nil if that clock has none, is no home, or
-- is at another node.
--   key     the name of a clock
--   member  of that clock
--   name    of the incarnation, or the member of a clock
local function clock_home(key, member, name)
  local tag = string.match(name, '@(%d+)')
  if not tag then
    return member
  end
  local home = 'lockagent_clock:{' .. tag .. '}'
  member = home == key and member or home ~= key and pcall('ZRANGE', home, -1, -1)[1] or ''
  return string.match(member, '@(%d+)') == tag and member or nil
end

-- Reports whether tenures may begin: the name of the incarnation is the present one, and there is no grace period.
-- Otherwise the database may lack tenures that their agents can put back.
local function clock_grants(time)
  if time.grants == nil then
    local name = string.match(time.member or '', '^%S+') or ''
    local home = clock_home(time.key, time.member, name) or ''
    time.grants = name == '-' or string.find(name, '^%d') ~= nil and string.match(home, '^%S+') == name and
      not string.find(home, '~', 1, true)
  end
  return time.grants
end

-- Returns the token of a tenure that begins now, as a text. Tenures of several locks share one.
--   time   it moves on
--   fresh  whether the token must be above all before
-- Returns nil if no tenure may begin, or if the clock was set back. An acquire has to set that right.
local function clock_token(time, fresh)
  if time.token and not fresh then
    return time.token
  end
  local at = math.max(time.now, time.last + 1)
  if at > time.now + 100 or not clock_grants(time) then
    return nil
  end
  time.now, time.last, time.shown = at, at, at == time.now and time.shown or string.format('%.0f', at)
  time.token = time.shown
  call('ZADD', time.key, time.token, time.member)
  return time.token
end

-- Raises a clock to the last token of a tenure that has ended: later tokens are above it. A token that is a day ahead
-- is none, and must not use up the others.
local function clock_raise(time, token)
  if token > time.last and token < math.max(time.now, time.last) + day then
    pcall('ZADD', time.key, string.format('%.0f', token), time.member or '?')
    time.last, time.shown = token, nil
  end
end

-- Raises a clock to what it shows, after tenures were renewed, unless the server is full. Returns the error of a
-- replica, or nil: a replica may not have the tenures yet, or not any more.
local function clock_confirm(time)
  local raised = time.member and pcall('ZADD', time.key, 'GT', clock_shows(time), time.member)
  return type(raised) == 'table' and string.find(raised.err, 'READONLY', 1, true) and raised or nil
end

-- Returns what a release says of a tenure that was not there: that it is over, or nothing, as of one that was released.
-- If the database has forgotten the tenure, the agent held the lock until it gave it up: nobody else has been granted
-- it. A program that is no agent may have taken the lock: ask has_foreign first. flags are those of release.lua.
local function clock_not_there(time, flags)
  return (string.find(flags, 'n', 1, true) or clock_grants(time)) and 'n' or nil
end
