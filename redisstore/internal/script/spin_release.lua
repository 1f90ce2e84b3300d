-- spin_release.lua is release.lua for spin locks: it wakes nobody, as Redisson's. A spin lock has no queue.
--
-- KEYS, ARGV and the reply are those of release.lua. ARGV[1] is "single" everywhere.

local redis = {
  call = redis.call,
  pcall = function(command, ...)
    return command == 'PUBLISH' and 0 or redis.pcall(command, ...)
  end,
}

--include release.lua
