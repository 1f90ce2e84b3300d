-- answer.lua is a part of scripts that acquire: it tries the locks that are left, and returns the reply.
local lines = {reply}
for r = 1, rest and #rest or n do
  local i = rest and rest[r] or r
  local line = try(i)
  if line then
    lines[#lines + 1] = i .. ' ' .. line
  end
end
return table.concat(lines, '\n')
