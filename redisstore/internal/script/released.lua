-- released.lua is the last part of scripts that release. It says what became of each lock in rest.
-- The script before it has two things. freed hands on lock i, and returns what there is to say about it.
-- The arguments of that lock begin behind a. own is the length of KEYS[n+i] without the lock's suffix.
--include unreleased.lua

local lines = {string.format('%.0f', clock)}
for _, i in ipairs(rest) do
  local a, flags = per * (i - 1) + 2, per == 3 and args[per * i + 2] or ''
  local suffix, line = string.sub(keys[n + i], own + 1), nil
  if string.find(flags, 'u', 1, true) then
    note(suffix, clock, args[a + 1])
  end
  if removed[i] == 1 then
    line = freed(i, a, flags, suffix)
  else
    line = unreleased(keys[i], args[a + 1], removed[i])
  end
  if line then
    lines[#lines + 1] = i .. ' ' .. line
  end
end
return table.concat(lines, '\n')
