-- answer.lua is a part of other scripts: a function that makes a reply.

-- Returns a reply: its first line, and a line for each lock about which there is something to say.
--   first  the first line
--   n      how many locks there are
--   which  the numbers of those that are left, or nil for all
--   say    is called with each number, and returns a text or nil
local function answer(first, n, which, say)
  local lines = {first}
  for r = 1, which and #which or n do
    local i = which and which[r] or r
    local line = say(i)
    if line then
      lines[#lines + 1] = i .. ' ' .. line
    end
  end
  return table.concat(lines, '\n')
end
