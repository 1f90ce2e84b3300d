-- incarnation.lua names the incarnation of a database.
--
-- KEYS[1]  the name, as "<data>.<run>": data is when the database was found empty,
--          run is the beginning of the id that the server made when it started
--
-- Reply: {name, time in microseconds}. If the server is another run than in the
-- name, the name is changed first; if there is none, one is made.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') or ''
local name = redis.call('GET', KEYS[1])
local data = name and string.match(name, '^%d+') or string.format('%.0f', now)
local current = data .. '.' .. string.sub(run, 1, 16)
if name ~= current then
  redis.call('SET', KEYS[1], current)
end
return {current, now}
