-- incarnation.lua names the incarnation of a database, and calls the roll. In a Cluster it does so for a node: the keys
-- are in the last slot of the node, the home. Tools that move slots begin with the first ones. If another slot becomes
-- the last one, an agent that knows the node tells its name there. Then the new home also has the roll.
--
-- KEYS[1]  the clock, see clock.lua
-- KEYS[2]  ahead: how many microseconds the clock is ahead of the server's
-- KEYS[3]  since: the name, and when this script first found it, by the server's own time
-- KEYS[4]  the grace period, see grace.lua
-- KEYS[5]  the roll: a zset of the agents that may have tenures, "<the longest lease in ms> <agent>", with the time
--          until which they are on it if they do not call again, in microseconds of the server's own clock. The score
--          of "version" is below 0 and falls with each change. That of "home <tag>", a former home of the node, is 0
-- ARGV[1]  "on" if a new incarnation begins with a grace period, or "off"
-- ARGV[2]  how many ms such a period lasts at least if nobody knew the database
-- ARGV[3]  the incarnation that the agent knows, or "". If the agent has not looked at this home before, that of the
--          node at its former home
-- ARGV[4]  the version of the roll that the agent knows, or "0"
-- ARGV[5]  the agent as on the roll, or "" if it is not to be there
-- ARGV[6]  "whole" if the agent tells of those that were on the roll as far as it knows. "old" if it does so, but has
--          not heard who came since: then it shortens no grace period. Or "". Then it is an error, "LOOK <name>", if an
--          incarnation would begin, or goes on with a grace period that the agent has not seen, or at another home than
--          the agent knows
-- ARGV[7]  whose roll it is, for the messages: the tag of the home, or without a Cluster the number of the database
-- Then those agents, as on the roll
--
-- Reply: lines of text. The first line is "<at> <name> <age> <left> <version>". age is for how many microseconds, or
-- more, the name has been that of the database. The name is "<data>.<run>" without a grace period, and
-- "<data>.<run>.<began>" with one. In a Cluster it ends with "@" and the tag of the slot. data is the time at which a
-- script found the database empty. run is the beginning of the server's run_id. began is when the period began, by the
-- server's own time. If the database has no name, or the name of another run, the script first writes the new name.
-- Then it tells all agents. left is how many ms are left of a grace period, or -1. The other lines are
--   w <agent>          the grace period waits for that agent. For a minute after its end: the agent has not come back
--   r <lease> <agent>  an agent on the roll. The whole roll follows unless the agent knows it
--
-- A user who may not run INFO does not see the run of the server. Then the run in the name stays, or is empty, and the
-- age is -1: a restart would go unnoticed.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV

--include clock.lua

--include grace.lua

-- Returns until when an agent is on the roll that calls now: for a minute beyond its lease.
local function roll_till(server, entry)
  return string.format('%.0f', server + string.match(entry, '^%d+') * 1000 + 60e6)
end

-- Calls the roll: removes those who have not called for long, and puts the agent on it.
--   entry  the agent as on the roll, or "". If it is new there, a message tells the others: "roll <whose> <entry>"
--   whose  as ARGV[7]
-- Returns the version of the roll. A roll that is spoilt is empty.
local function roll_call(key, server, entry, whose)
  local gone = pcall('ZRANGEBYSCORE', key, 1, string.format('%.0f', server), 'LIMIT', 0, 1000)
  if gone.err then
    return '0'
  end
  local changed = #gone
  if gone[1] then
    pcall('ZREM', key, unpack(gone))
  end
  if entry ~= '' then
    local added = call('ZADD', key, roll_till(server, entry), entry)
    if added == 1 then
      pcall('PUBLISH', 'lockagent_incarnation', 'roll ' .. whose .. ' ' .. entry)
    end
    changed = changed + added
  end
  if changed > 0 then
    pcall('ZADD', key, 'INCR', -1, 'version')
  end
  return call('ZSCORE', key, 'version') or '0'
end

-- Takes over the roll of another home of the node.
--   from  that home
--   roll  who was on it as far as the agent knows: the slot may be at another node by now
local function roll_take(key, server, from, roll)
  local entries = pcall('ZRANGEBYSCORE', 'lockagent_roll:{' .. from .. '}', 0, '+inf', 'WITHSCORES')
  for _, entry in ipairs(roll) do
    entries[#entries + 1], entries[#entries + 2] = entry, roll_till(server, entry)
  end
  local added = false
  for i = 1, #entries, 2 do
    added = pcall('ZADD', key, 'GT', entries[i + 1], entries[i]) == 1 or added
  end
  if added then
    pcall('ZADD', key, 'INCR', -1, 'version')
  end
end

-- Has the clocks of the former homes of a node name the incarnation that has begun. The clocks of slots in which no
-- tenure has begun since lead there.
--   key   the name of the roll
--   tag   the home
local function homes_end(key, tag, name)
  for _, home in ipairs(pcall('ZRANGEBYSCORE', key, 0, 0)) do
    local former = string.match(home, '^home (%d+)$')
    local clock = former and former ~= tag and 'lockagent_clock:{' .. former .. '}'
    local entry = clock and pcall('ZRANGE', clock, -1, -1, 'WITHSCORES') or {}
    local member = name .. (string.find(entry[1] or '', ' +', 1, true) and ' +' or '')
    if entry[1] and entry[1] ~= member then
      pcall('ZADD', clock, entry[2], member)
      pcall('ZREM', clock, entry[1])
    end
  end
end

-- Returns who is on the roll at a time.
local function roll_read(key, server)
  local all = pcall('ZRANGEBYSCORE', key, string.format('(%.0f', server), '+inf')
  return all.err and {} or all
end

-- Reports whether a node in its present run has an incarnation at another home, and no grace period. If that slot is at
-- another node by now, nothing shows that this one was not emptied since.
local function moved(name, run)
  local tag = string.match(name, '^%d+%.' .. run .. '[.@]') and string.match(name, '@(%d+)')
  local member = tag and pcall('ZRANGE', 'lockagent_clock:{' .. tag .. '}', -1, -1)[1]
  return member and string.match(member, '^%S+') == name and not string.find(member, '~', 1, true)
end

-- After a first write a server that is full takes others.
local writes = pcall('ZREM', keys[5], '')
if type(writes) == 'table' and string.find(writes.err, 'READONLY', 1, true) then
  return writes
end
local time = clock_read(keys[1], call('TIME'))
local at = clock_shows(time)
local ahead = call('EXISTS', keys[2]) == 1
local server_says = pcall('INFO', 'server')
local sees_run = type(server_says) == 'string'
local left, known = grace_left(keys[1], time.member, time.last, time.server)
local tag = string.match(keys[1], '{(%d+)}')
local pattern = '^(%d+)%.(%x*)%.?(%d*)'
local data, former_run, began = string.match(known or '', pattern)
local run = sees_run and string.sub(string.match(server_says, 'run_id:(%x+)') or '', 1, 16) or former_run or ''
local former, comes -- another home of the node, and whether the agent comes from there in this incarnation
if tag and string.match(known or '', '@(%d+)') ~= tag then -- this was no home
  local name = args[3] ~= '' and args[3] or string.match(known or '', '^%S+') or ''
  former = string.match(name, '@(%d+)')
  comes = moved(name, run)
  data, former_run, began = string.match(comes and name or '', pattern)
end
local forgot = run ~= former_run
-- A period that one agent wants is one for all.
local graced = args[1] == 'on' or (began or '') ~= '' or string.find(args[3], '^%d+%.%x*%.%d') ~= nil
if forgot or graced and began == '' then
  began = graced and string.format('%.0f', time.server) or ''
end
local name = (data or at) .. '.' .. run .. (began ~= '' and '.' .. began or '') .. (tag and '@' .. tag or '')
local other = args[3] ~= '' and args[3] ~= name
if other then
  former = string.match(args[3], '@(%d+)')
  comes = string.match(args[3], '^(.*)@') == string.match(name, '^(.*)@') and former
end

-- What the agent knows of the roll counts if it does not come from this incarnation at this home.
local news, roll = forgot or args[6] ~= 'old' and (left and args[3] ~= name or other and comes), {}
if news and args[6] == '' then
  return redis.error_reply('LOOK ' .. name)
end
for i = 8, news and #args or 0 do -- unpack fails if there are thousands
  roll[#roll + 1] = args[i]
end
if args[5] ~= '' then
  roll[#roll + 1] = args[5]
end
local first = former and former ~= tag and pcall('ZADD', keys[5], 0, 'home ' .. former) == 1
if forgot then
  for _, entry in ipairs(graced and roll_read(keys[5], time.server) or {}) do
    roll[#roll + 1] = entry
  end
  left = graced and (args[3] ~= '' and args[6] == 'whole' and grace_settles or args[2] * 1000)
  left = left and (left > 0 or roll[1]) and left or nil
  if left then
    grace_begin(keys[1], time.server, left, roll)
  end
elseif left and news then
  grace_join(keys[1], began + 0, other, roll)
end
if tag and (forgot or first and not comes) then
  homes_end(keys[5], tag, name)
elseif comes then
  roll_take(keys[5], time.server, former, roll)
end
local member = name .. (ahead and ' +' or '') .. (left and ' ~' or '')
if member ~= known then
  call('ZADD', keys[1], known and string.format('%.0f', time.last) or at, member) -- first: an empty zset has no key
  if known then
    call('ZREM', keys[1], known)
  end
  pcall('PUBLISH', 'lockagent_incarnation', '')
end

-- The clock of the locks does not count here: it may be set forward without a lease being over. If the server's own
-- clock was set back, the age is not known, and counts anew.
local since = pcall('GETRANGE', keys[3], '0', '-1')
local of, from = string.match(type(since) == 'string' and since or '', '^(%S+) (%d+)$')
local age = of == name and time.server - from or -1
if age < 0 then
  -- If the server refuses that, for example because it is full, the next look tries again.
  pcall('SET', keys[3], string.format('%s %.0f', name, time.server))
  age = 0
end

local version = roll_call(keys[5], time.server, args[5], args[7])
left = grace_left(keys[1], member, time.last, time.server)
local lines = {
  string.format('%s %s %.0f %.0f %s', at, name, sees_run and age or -1, left and math.ceil(left / 1000) or -1, version)
}
for _, agent in ipairs(grace_awaited(keys[1], left and time.server or 0)) do
  lines[#lines + 1] = 'w ' .. agent
end
for _, entry in ipairs((version ~= args[4] or args[3] ~= name) and roll_read(keys[5], time.server) or {}) do
  lines[#lines + 1] = 'r ' .. entry
end
return table.concat(lines, '\n')
