-- renew.lua starts the leases of n tenures anew. A lease is never shortened.
--
-- KEYS[i]    a lock: a hash with one field, the tenure that has it
-- KEYS[n+1]  the clock, see acquire.lua
-- Then for each lock
--   the tenure, "<agent>:<number>"
--   its lease in ms
--
-- Where keys cannot travel together the script runs alone, see acquire.lua. Then the last argument
-- is the name of KEYS[2].
--
-- Reply: lines of text. The first is the time. Tenures of which there is no further line go on. A
-- further line begins with the i of a lock and goes on with
--   n         the tenure is over
--   e <text>  an error

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV

--include clock.lua

local n = (#args - #args % 2) / 2
local key = keys[n + 1] or args[3]
local at, entry = time_of(key)
local lines = {at}
for i = 1, n do
  local held = pcall('HEXISTS', keys[i], args[2 * i - 1])
  if held ~= 1 then
    -- What is no lock any more is not held.
    local over = held == 0 or string.find(held.err, 'WRONGTYPE', 1, true)
    lines[#lines + 1] = i .. (over and ' n' or ' e ' .. held.err)
  elseif call('PTTL', keys[i]) < args[2 * i] + 0 then
    call('PEXPIRE', keys[i], args[2 * i])
  end
end
if entry[1] and keys[n + 1] then
  pcall('ZADD', key, 'GT', at, entry[1]) -- unless the server is full
end
return table.concat(lines, '\n')
