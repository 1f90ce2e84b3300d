-- incarnation.lua names the incarnation of a database.
--
-- KEYS[1]  the clock, see acquire.lua
-- KEYS[2]  ahead: how many microseconds the clock is ahead of the server's
-- KEYS[3]  since: the name, and when this script first found it, by the server's own time
--
-- Reply: "<at> <name> <age>". age is for how many microseconds, or more, the name has been that of the
-- database. The name is "<data>.<run>". data is the time at which this script found the
-- database empty. run is the beginning of the server's run_id. If the database has no name, or
-- the name of another run, the script first writes the new name. Then it tells all agents.
--
-- A user who may not run INFO does not see the run of the server. Then the run in the name stays, or is empty, and the
-- age is -1: a restart would go unnoticed.

local call, pcall = redis.call, redis.pcall

--include clock.lua

local time = clock_read(KEYS[1], call('TIME'))
local at, known = clock_shows(time), time.member
local ahead = call('EXISTS', KEYS[2]) == 1
local server_says = pcall('INFO', 'server')
local sees_run = type(server_says) == 'string'
local data, former_run = string.match(known or '', '^(%d+)%.?(%x*)')
local run = sees_run and string.match(server_says, 'run_id:(%x+)') or former_run or ''
local name = (data or at) .. '.' .. string.sub(run, 1, 16)
local member = name .. (ahead and ' +' or '')
if member ~= known then
  call('ZADD', KEYS[1], known and string.format('%.0f', time.last) or at, member) -- first: an empty zset has no key
  if known then
    call('ZREM', KEYS[1], known)
  end
  pcall('PUBLISH', 'lockagent_incarnation', '')
end

-- The clock of the locks does not count here: it may be set forward without a lease being over. If the server's own
-- clock was set back, the age is not known, and counts anew.
local since = pcall('GETRANGE', KEYS[3], '0', '-1')
local of, from = string.match(type(since) == 'string' and since or '', '^(%S+) (%d+)$')
local age = of == name and time.server - from or -1
if age < 0 then
  -- If the server refuses that, for example because it is full, the next look tries again.
  pcall('SET', KEYS[3], string.format('%s %.0f', name, time.server))
  age = 0
end
return string.format('%s %s %.0f', at, name, sees_run and age or -1)
