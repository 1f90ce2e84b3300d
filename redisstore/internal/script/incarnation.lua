-- incarnation.lua names the incarnation of a database.
--
-- KEYS[1]  the clock, see acquire.lua
-- KEYS[2]  ahead: how many microseconds the clock is ahead of the server's
--
-- Reply: "<at> <name>". The name is "<data>.<run>". data is the time at which this script found the
-- database empty. run is the beginning of the server's run_id. If the database has no name, or
-- the name of another run, the script first writes the new name. Then it tells all agents.

local call, pcall = redis.call, redis.pcall

--include clock.lua

local at, entry = time_of(KEYS[1])
local ahead = call('EXISTS', KEYS[2]) == 1
local run = string.match(call('INFO', 'server'), 'run_id:(%x+)') or ''
local data = string.match(entry[1] or '', '^%d+') or at
local name = data .. '.' .. string.sub(run, 1, 16)
local member = name .. (ahead and ' +' or '')
if member ~= entry[1] then
  call('ZADD', KEYS[1], entry[2] or at, member) -- before the next command, which would delete the key
  if entry[1] then
    call('ZREM', KEYS[1], entry[1])
  end
  pcall('PUBLISH', 'lockagent_incarnation', '')
end
return at .. ' ' .. name
