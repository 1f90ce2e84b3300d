-- quick.lua is a part of scripts that acquire. If quiet, it grants the locks that are free for sure, and
-- rest has the others. raised says that the clock has moved on. held_as is as in tenure.lua.
local clock, name = keys[2 * n + 1], args[2]
--include present.lua
local raised = quiet and present and args[1] + 0 < at + 0 and pcall('ZADD', clock, 'XX', 'GT', 'CH', at, name) == 1
local rest
if raised then
  local seen = n > 1 and {} -- a lock may be among the n twice
  for i = 1, n do
    local a, lock = per * (i - 1) + 2, keys[i]
    if per == 3 and args[a + 3] ~= '' or seen and seen[lock] then
      rest = rest or {}
      rest[#rest + 1] = i
    else
      call('HSET', lock, args[a + 1], held_as)
      call('PEXPIRE', lock, args[a + 2])
    end
    if seen then
      seen[lock] = true
    end
  end
  if not rest then
    return at
  end
end
