-- room.lua is a part of scripts that acquire: it tells how messages travel, as the locks of acquire.lua say.
local room = 'single' -- if nobody asks for a place, it does not matter
for i = 1, per == 3 and n or 0 do
  room = string.match(args[3 * i + 2], '^%a+') or room
end
--include old_ways.lua
