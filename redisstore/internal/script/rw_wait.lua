-- rw_wait.lua is a part of the scripts that keep readers out of read/write locks. lock is as in rw.lua.

--include queue.lua

--include rw.lua

-- Reports whether a writer whose agent listens has one of the first places, before a place, or any.
local function rw_writer_waits(lock, before)
  for _, other in ipairs(pcall('ZRANGE', lock.queue, 0, places_looked_at - 1)) do
    if other == before then
      return false
    end
    local agent = string.match(other, '^([^:]*):.*:write$')
    if agent and ways_listeners(lock.room, {ways_channel_of(lock.room, agent, lock.suffix)})[2] > 0 then
      return true
    end
  end
  return false
end
