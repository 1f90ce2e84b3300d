-- permits_change.lua reads or changes the permits of a semaphore, see permits.lua.
--
-- ARGV[7]   the operation, see lockagent.PermitsOp
-- ARGV[8]   the number
-- ARGV[9]   the id of a permit, as hexadecimal digits
-- ARGV[10]  the lease in ms
-- ARGV[11]  the key of the change, which has the reply for a while, or ""
-- ARGV[12]  for how long, in ms
-- ARGV[13]  the incarnation that the agent knows, see acquire.lua
--
-- An error "MANY <number>" says that there would be too many permits, or too few. If holders may come back, with their
-- permits and the number, the error of a change begins with "GRACE" or "LOOK", see grace.lua.
-- Reply: "<at> <1 if done> <number of the operation> <1 if the semaphore exists> <free> <taken>"

local call, pcall = redis.call, redis.pcall
local seen = call('TIME')

--include grace.lua

--include permits.lua

-- Finds a permit by its id as hexadecimal digits. Redisson before 3.17 wrote the digits, and later versions write the
-- bytes. Returns the id as it is written, and its score, or nil.
local function permits_find(s, digits)
  local bytes = string.gsub(digits, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
  for _, id in ipairs({bytes, digits}) do
    local score = call('ZSCORE', s.ids, id)
    if score then
      return id, score
    end
  end
end

local op, number, change = ARGV[7], ARGV[8] + 0, ARGV[11]
local before = change ~= '' and call('GETRANGE', change, '0', '-1') or ''
if before ~= '' then
  return before
end
local time = clock_read(ARGV[6], seen)
local refused = op ~= 'read' and grace_refuses(time, ARGV[13])
if refused then
  return refused
end
local s, err = permits_read(KEYS[1], ARGV, seen)
if err then
  return redis.error_reply(err)
end
-- A key of another type is an error before the change has counted, and not when permits are passed.
call('HLEN', s.taken)
call('ZCARD', s.tenures)
local back, at = permits_reclaim(s), clock_shows(time)
local known = s.ids and call('ZCARD', s.ids) or 0 -- the permits with ids that are taken
local done, told, more = false, 0, nil -- so many more permits are to be free
if op == 'tryset' and not s.free then
  more = number - known
elseif op == 'set' then
  more = number - known - (s.free or 0)
elseif op == 'add' then
  more = s.free and number or number - known
  -- Redisson reads the numbers of permits as an int of 32 bits. Its threads must not read another number.
  local sum = (s.free or 0) + number + (number > 0 and permits_taken(s) or 0)
  if math.abs(sum) > 2147483647 and sum * number > 0 then
    if back then -- the waiters hear of the permits that came back, also if the change is refused
      permits_wake(s)
      permits_next(s)
    end
    return redis.error_reply('MANY ' .. sum)
  end
elseif op == 'drain' and s.free and s.free > 0 then
  told, more = s.free, -s.free
elseif op == 'release' and s.free then
  local id = permits_find(s, ARGV[9])
  if id then
    call('ZREM', s.ids, id)
    more = 1
  end
elseif op == 'extend' then
  local id, score = permits_find(s, ARGV[9])
  if id then -- no lease ends earlier, because nobody would tell the holder
    call('ZADD', s.ids, score == endless and 'XX' or 'GT', s.ms + 1 + ARGV[10], id)
    done = true
  end
elseif op == 'delete' then
  done = s.free and true or false
  call('DEL', unpack({s.name, s.tenures, s.taken, s.ids}))
  s.free, back = nil, false
  ways_publish(s.room, s.channel, '0')
end
if more then
  local new = not s.free
  s.free, done = call('INCRBY', s.name, more), true
  if new then -- of a number that is gone, permits with ids may be left. Their holders do not know better
    back = permits_reclaim(s)
  end
end
if done then
  pcall('ZREM', 'lockagent_notes' .. s.suffix, 'sum')
end
if back or more and (more > 0 or s.ids and more < 0) then
  permits_wake(s)
  if s.ids and s.free <= 0 and more and more > 0 then
    ways_publish(s.room, s.channel, '0') -- those that want more permits than there were ask again
  end
  permits_next(s)
end
local reply = table.concat({
  at, done and 1 or 0, told, s.free and 1 or 0, s.free or 0, permits_taken(s),
}, ' ')
if change ~= '' then
  call('SET', change, reply, 'PX', ARGV[12])
end
return reply
