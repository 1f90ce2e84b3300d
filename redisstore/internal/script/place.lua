-- place.lua is a part of scripts that acquire: a function that gives places. first is the time. It needs ways.lua before it.
--
-- Gives a tenure the last place in the queue, but for those that are passed over, and reports whether it has one. A new
-- place removes those of agents that are gone, among the first two and the two before it, and returns them, too. It has
-- none if the key is spoilt, or the server full. A replica refuses the whole call: no lock was changed.
local function place(tenure, queue, suffix)
  local added = pcall('ZADD', queue, 'NX', first, tenure)
  if type(added) == 'table' then
    return string.find(added.err, 'READONLY', 1, true) and call('ZADD', queue, first, tenure)
  end
  call('PEXPIRE', queue, '300000')
  local gone
  if added == 1 then
    -- Sooner or later a place that nobody uses any more is in front. The former life of a program
    -- that crashes again and again is just before this one.
    local near, names = call('ZRANGE', queue, 0, 1), {}
    local rank = call('ZRANK', queue, tenure)
    for _, before in ipairs(rank > 2 and call('ZRANGE', queue, math.max(2, rank - 2), rank - 1) or {}) do
      near[#near + 1] = before
    end
    for p, other in ipairs(near) do
      names[p] = channel_of(string.match(other, '^([^:]*)'), suffix)
    end
    local counts = listeners(names)
    for p, other in ipairs(near) do
      if counts[2 * p] == 0 and other ~= tenure then
        call('ZREM', queue, other)
        gone = gone or {}
        gone[#gone + 1] = other
      end
    end
  end
  return true, gone
end
