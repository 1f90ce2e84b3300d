-- begin.lua is a part of scripts that pass a lock. clock is the time, and held_as the value of their fields, see kinds.lua.

local pass_lease = '2000' -- in ms

-- Begins a tenure, as if it had acquired the lock. Returns what the message of a pass tells: "<token> <at>
-- <clock>", and the incarnation or "-". It returns nil, and does nothing, if the lock is not free, or if
-- the clock was set back: an acquire has to set it right.
--
-- joins says that the tenure shares the lock with those that have it.
--
-- key is the name of ahead, see acquire.lua, and ahead is its value.
local tick = clock
local function begin(key, ahead, lock, tenure, joins)
  key = 'lockagent_clock' .. string.sub(key, 16)
  local entry = pcall('ZRANGE', key, -1, -1, 'WITHSCORES')
  local at = math.max(tick, (entry[2] or 0) + 1)
  if not entry[1] or at > tick + 100 or not joins and call('EXISTS', lock) == 1 then
    return nil
  end
  tick = at
  local token = string.format('%.0f', at)
  call('ZADD', key, token, entry[1])
  call('HSET', lock, tenure, held_as)
  if not joins or call('PTTL', lock) < pass_lease + 0 then
    call('PEXPIRE', lock, pass_lease)
  end
  local incarnation = string.match(entry[1], '^%S+')
  local name = incarnation == '-' and pcall('CLUSTER', 'MYID') or incarnation
  name = type(name) == 'string' and name or '-'
  return token .. ' ' .. token .. ' ' .. name .. '/' .. ahead, incarnation
end
