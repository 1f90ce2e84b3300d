-- rw_polls.lua is a part of the scripts for read/write locks: it lets programs have a lock that poll it.
--
-- An attempt of Redisson's calls HGET. If readers have the lock, it calls nothing else that our scripts do not call, too. The
-- release of a writer calls HEXISTS.

--include notes.lua

local polls_turn = 100000 -- in microseconds

-- Returns until when the lock is left to those that poll, or nobody joins the readers. See poll_turns.lua.
local function poll_turn(suffix, tag, shared, leaves)
  local poll_call, take_call, polls_until = 'hget', 'hexists', nil
--include poll_turns.lua
  return polls_until
end
