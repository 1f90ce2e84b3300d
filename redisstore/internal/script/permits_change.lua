-- permits_change.lua reads or changes the permits of a semaphore, see permits.lua.
--
-- ARGV[7]   the operation, see lockagent.PermitsOp
-- ARGV[8]   the number
-- ARGV[9]   the id of a permit, as hexadecimal digits
-- ARGV[10]  the lease in ms
-- ARGV[11]  the key of the change, which has the reply for a while, or ""
-- ARGV[12]  for how long, in ms
--
-- An error "MANY <number>" says that there would be too many permits, or too few.
-- Reply: "<at> <1 if done> <number of the operation> <1 if the semaphore exists> <free> <taken>"

local call, pcall = redis.call, redis.pcall

--include holders.lua

--include number.lua

--include permits_id.lua

--include permits.lua

--include permits_tenures.lua

--include permits_share.lua

if refused then
  return redis.error_reply(refused)
end

local most_permits = 2147483647
local op, number, change = ARGV[7], ARGV[8] + 0, ARGV[11]
local before = change ~= '' and call('GETRANGE', change, '0', '-1') or ''
if before ~= '' then
  return before
end
-- A key of another type is an error before the change has counted, and not when permits are passed.
call('HLEN', taken)
call('ZCARD', tenures)
local gained = reclaim()
local known = with_ids and call('ZCARD', ids) or 0 -- the permits with ids that are taken

-- Makes so many more permits free. It creates the semaphore if need be: if somebody deleted the number alone, permits
-- with ids are still taken, and their holders do not know better.
local function add(n)
  local new = not free
  free = call('INCRBY', lock, digits(n))
  gained = gained or n > 0 or with_ids and n < 0 -- if there are fewer permits, the next request may be passed over
  if new then
    gained = reclaim() or gained
  end
end

-- The permit with the id of ARGV[9], and its score. Redisson before 3.17 wrote the digits, and later versions write
-- the bytes.
local function permit()
  local raw = string.gsub(ARGV[9], '%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
  for _, id in ipairs({raw, ARGV[9]}) do
    local score = call('ZSCORE', ids, id)
    if score then
      return id, score
    end
  end
end

-- Redisson reads the numbers of permits as an int of 32 bits. Its threads must not read another number.
if op == 'add' then
  local there = (free or 0) + (number > 0 and taken_now() or 0)
  if math.abs(there + number) > most_permits and (there + number) * number > 0 then
    if gained then -- the waiters hear of the permits that came back, also if the change is refused
      share('-')
    end
    return redis.error_reply('MANY ' .. digits(there + number))
  end
end
local done, told = false, 0
if op == 'tryset' and not free then
  add(number - known)
  done = true
elseif op == 'set' then
  add(number - known - (free or 0))
  done = true
elseif op == 'add' then
  add(free and number or number - known)
  done = true
elseif op == 'drain' and free and free > 0 then
  done, told = true, free
  add(-free)
elseif op == 'release' then
  local id = free and permit()
  if id then
    call('ZREM', ids, id)
    add(1)
    done = true
  end
elseif op == 'extend' then
  local id, score = permit()
  if id then -- no lease ends earlier, because nobody would tell the holder
    call('ZADD', ids, score == endless and 'XX' or 'GT', digits(math.ceil(server / 1000) + ARGV[10]), id)
    done = true
  end
elseif op == 'delete' then
  done = free and true or false
  call('DEL', lock, tenures, taken)
  if with_ids then
    call('DEL', ids)
  end
  free = nil
  pcall(publish, channel, '0')
end
if done then
  pcall('ZREM', 'lockagent_notes' .. suffix, 'sum')
end
local at = digits((shows())) -- permits that are passed on are granted later
if gained then
  share('-')
end
local reply = table.concat({
  at, done and '1' or '0', digits(told), free and '1' or '0', digits(free or 0), digits(taken_now())
}, ' ')
if change ~= '' then
  call('SET', change, reply, 'PX', ARGV[12])
end
return reply
