-- spin_release.lua is release.lua for spin locks: it wakes nobody, as Redisson's. A spin lock has no queue.
--
-- A tenure of another kind may have a place in a queue: it came while another program had the lock. Then the
-- release passes the lock, as that of the other kind would.
--
-- KEYS, ARGV and the reply are those of release.lua.

local function wakes(command, payload) return payload == '0' and (command == 'PUBLISH' or command == 'SPUBLISH') end

local redis = {
  held_as = '1', -- the queue has tenures of other kinds
  call = redis.call,
  pcall = function(command, ...)
    return wakes(command, select(2, ...)) and 0 or redis.pcall(command, ...)
  end,
}

--include release.lua
