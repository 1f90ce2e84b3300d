-- renew.lua starts the leases of n tenures anew. It never shortens a lease.
--
-- KEYS[i]    lock i: a hash with one field, the tenure that has the lock
-- KEYS[n+1]  the clock, see acquire.lua
-- ARGV       for each lock
--   the tenure, "<agent>:<number>"
--   the lease in ms
--
-- Reply: lines of text. The first line is <at>. A tenure without another line has the lock. The other
-- lines begin with the i of a lock:
--   i n         the tenure is over
--   i e <text>  an error
-- A replica gives an error reply.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV

--include clock.lua

local n = #args / 2
local key = keys[n + 1]
local at, entry = time_of(key)
local lines = {at}
for i = 1, n do
  local held = pcall('HMGET', keys[i], args[2 * i - 1])
  if not held[1] then
    -- What is no lock any more is not held.
    local over = not held.err or string.find(held.err, 'WRONGTYPE', 1, true)
    lines[#lines + 1] = i .. (over and ' n' or ' e ' .. held.err)
  else -- always a write: servers count replicas only for connections that wrote
    call('PEXPIRE', keys[i], math.max(call('PTTL', keys[i]), args[2 * i]))
    local kind = string.match(held[1], '^1(%d)$')
    if kind then -- what is renewed does not rest, see kinds.lua; a full server lets only a script write it that has written
      call('HSET', keys[i], args[2 * i - 1], kind)
    end
  end
end
if entry[1] then
  local raised = pcall('ZADD', key, 'GT', at, entry[1]) -- unless the server is full
  if type(raised) == 'table' and string.find(raised.err, 'READONLY', 1, true) then
    return raised -- a replica may not have the tenures yet, or not any more
  end
end
return table.concat(lines, '\n')
