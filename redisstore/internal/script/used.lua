-- used.lua is a part of scripts that acquire. It has a function that tells whether a lock that is held is in use as another kind.
--
-- Plain, fair, spin and fenced locks are one hash. The value that an agent writes shows the kind, see kinds.lua. Behind another holder, those who
-- wait show it. What may have stayed behind must not keep a name from its users. So only those count who wait now.
--
-- The script before it says where tenures wait: own_places has those of its kind, or is nil, and other_places has those of the other
-- kinds. held_as is the value of their fields, see kinds.lua.

local fresh_places = 270000 -- in ms: each attempt makes the places last for 300 s, and who waits tries again within 10 s
local looked_for = 8

-- Reports whether an agent waits that has one of the places.
local function somebody_waits(places, suffix)
  local left = pcall('PTTL', places)
  if type(left) ~= 'number' or left < fresh_places then
    return false
  elseif room == 'unqueued' then
    return true
  end
  local names = pcall('ZRANGE', places, -looked_for, -1)
  for p, place in ipairs(names) do
    names[p] = channel_of(string.match(place, '^([^:]*)'), suffix)
  end
  local counts = names[1] and listeners(names) or {}
  for p = 2, #counts, 2 do
    if counts[p] > 0 then
      return true
    end
  end
  return false
end

-- Returns the answer for a tenure that finds a lock held which is in use as another kind, or nil. A tenure that has a place came first.
local function used_as_another(suffix, tenure, holder, count, waits)
  local used = count ~= held_as and count ~= '1' .. held_as and kind_of_holder(holder, count)
  for _, places in ipairs(waits and not used and other_places or {}) do
    used = used or somebody_waits(places .. suffix, suffix) and (places == 'lockagent_places' and 'fair' or kind_of(suffix))
  end
  local place = used and own_places and pcall('ZSCORE', own_places .. suffix, tenure)
  if used and not place then -- a place at another node, while the slot migrates, is an error, and may be its own
    return 'e KIND ' .. used
  end
end
