-- permits_acquire.lua tries once to begin a tenure of a semaphore, see permits.lua.
--
-- ARGV[7]   the greatest time that the agent knows, see acquire.lua
-- ARGV[8]   the incarnation that the agent knows, see acquire.lua
-- ARGV[9]   the tenure
-- ARGV[10]  the lease in ms
-- ARGV[11]  the number of permits
-- ARGV[12]  ARGV[2] if the tenure asks for a place in the queue, or ""
--
-- Reply: as of acquire.lua, for one lock, with "p" for "g". The first place in the queue has a "k", as behind a holder that tells nobody. A "p" ends with the number of all permits, or 0 if
-- the tenure had its permits before. In place of a holder there is a text for people. A "u" with the number of
-- outsiders says that nobody has set the semaphore. An error "DELETED"
-- says that the semaphore was deleted while the tenure had a place. A note keeps that for a repeated call.

local call, pcall = redis.call, redis.pcall

--include permits_id.lua

--include permits_quick.lua

--include holders.lua

--include number.lua

--include permits.lua

--include permits_tenures.lua

--include permits_share.lua

if refused then
  return redis.error_reply(refused)
end

local args, keys, n, raised = {ARGV[7], ARGV[8]}, {ARGV[6]}, 0, false
local at = time[1] .. string.sub('00000' .. time[2], -6)

--include tokens.lua
move_clock(clock)

--include place.lua

local tenure, lease, need, asks = ARGV[9], ARGV[10] + 0, ARGV[11] + 0, ARGV[12]
local notes = pcall('ZMSCORE', 'lockagent_notes' .. suffix, tenure, 'yield', 'deleted ' .. tenure, 'polls')
if notes[1] then
  return reply .. '\n1 w'
end
local gained = reclaim()
local own, whole = has(tenure)
if own and not whole then
  drop(tenure, own)
  own, gained = nil, true
end
local had, outsiders, kept_ms, our_turn = own, 0, nil, false
if asks ~= '' then
  outsiders = outsiders_of(channel, suffix)
end
if not own then
  local yield, polls = (asks == '' or outsiders > 0) and notes[2], notes[4]
  local left = yield and yield - clock <= most_yield and yield - clock or 0
  if room == 'unqueued' then -- an agent without queues is an outsider, too
    our_turn, left = left > 0, 0
  end
  left = math.max(left, turn_left(polls) or 0)
  kept_ms = left > 0 and math.ceil(left / 1000) or nil
end
local others = pcall('ZCARD', queue) -- no queue if the key is spoilt
others = type(others) == 'number' and others > 0
if others then
  recall()
end
local head = others and first_places(1)[1]
if gained then
  share('-')
elseif not own and not kept_ms and not our_turn and free and free > 0 and others and head ~= tenure then
  spread('-')
end
if others then
  own, head = has(tenure), first_places(1)[1]
end
local mine = free and not kept_ms and (our_turn or not head or head == tenure) and need <= free
if asks ~= '' and free then
  look_for_foreign()
end
local theirs = not own and mine and outsiders == 0 and foreign_turn(suffix, asks ~= '')
if theirs then
  mine, kept_ms = false, math.ceil(theirs / 1000)
end
if own or mine then
  local token = begin()
  if not token then
    return redis.error_reply('ERR the clock was set back meanwhile: try again')
  end
  if own then
    extend(tenure, own, lease)
  else
    take(tenure, need, lease)
  end
  if others then
    call('ZREM', queue, tenure)
    pcall('HDEL', wanted, tenure)
    if free > 0 then
      spread('-')
    end
  end
  return reply .. '\n1 p ' .. token .. ' ' .. outsiders .. ' ' .. (had and '0' or total())
elseif not free then
  local placed = others and call('ZREM', queue, tenure) == 1
  if placed then
    pcall('HDEL', wanted, tenure)
    note(suffix, clock, 'deleted ' .. tenure)
    pcall(publish, channel, '0') -- the others learn of it, too
  end
  if placed or notes[3] then
    return redis.error_reply('DELETED while the tenure had a place')
  end
  return reply .. '\n1 u ' .. outsiders
end
local queued = false
if asks ~= '' then
  local score = pcall('ZSCORE', queue, tenure)
  local is_over = type(score) == 'string' and score + 0 >= over_score
  local noted, gone = 0, nil
  if not is_over then -- otherwise the number stands there with the place
    noted = pcall('HSET', wanted, tenure, need)
  end
  if type(noted) == 'number' then
    pcall('PEXPIRE', wanted, 300000)
    queued, gone = place(tenure, queue, suffix)
    if gone or not queued then
      call('HDEL', wanted, unpack(gone or {tenure}))
    end
    if queued and not is_over and is_too_large(need) then
      pass_over(tenure, need)
      if head == tenure then -- it was in the way of others
        spread('-')
      end
    end
  elseif string.find(noted.err, 'READONLY', 1, true) then
    return noted
  end
end
local holder, left = 'others (' .. digits(free) .. ' of ' .. total() .. ' permits free)', -1
for _, key in ipairs(with_ids and {tenures, ids} or {tenures}) do
  local first_end = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if first_end and first_end ~= endless then
    local ms = math.max(1, first_end - math.ceil(server / 1000))
    left = left < 0 and ms or math.min(left, ms)
  end
end
if kept_ms then
  holder, left = '', kept_ms
end
-- Redisson tells nobody that it deletes a semaphore, nor that it takes permits away. So the first one asks again soon,
-- and tells the others.
local asks_first = queued and pcall('ZRANGE', queue, 0, 0)[1] == tenure
local within = kept_ms and room ~= 'unqueued' and look_soon or '1000'
local code = asks_first and 'k ' .. within or queued and 'q' or 'h'
return reply .. '\n1 ' .. code .. ' ' .. digits(left) .. ' ' .. outsiders .. ' ' .. holder
