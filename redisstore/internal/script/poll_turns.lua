-- poll_turns.lua is a part of the scripts for semaphores and for read/write locks. It lets programs have those that poll them,
-- as polls.lua does for other locks. If an attempt of Redisson's finds too few permits, or readers, it calls poll_call. If an
-- attempt succeeds, it calls take_call, or its release does. No script of ours calls either.
--
-- lockagent_busy:{N} is "<due> <wait> <freed> <takes>". If takes is "-", the next turn of those that poll is due at that
-- time. freed is since when permits or the lock are free, or 0. If takes is "+", readers are asked to leave before that time: the
-- turn begins when the lock is free. Otherwise it is their turn, which ends when it is due, and takes is how often anybody
-- had called take_call when it began. wait is the time between turns. It grows while nobody takes anything in them.
-- If a turn has to wait for a slow reader, so do other readers of its agent. So it grows to eighty times as long as that lasts.

-- It is not a function, because Lua would make that in each script, also where nobody waits. tag is the suffix of the clock.
-- It sets polls_until if agents wait and it is the turn of those that poll. Before it, a script sets leaves if its agents do
-- not wait but leave permits free, which is noted. It sets shared if readers have the lock. Then nobody joins them before
-- polls_until.
--include polled.lua
local busy, polls = 'lockagent_busy' .. suffix, 'lockagent_' .. poll_call .. 's' .. tag
local values = pcall('MGET', busy, polls)
if not values.err and polled(polls, values[2], poll_call, 1000000, clock) then
--include calls.lua
  local soon, pause = 100000, 10000 -- in microseconds, as are all times
  local least_wait, most_wait, longest_wait = 500000, 4000000, 240000000
  local due, wait, freed, takes = string.match(values[1] or '', '^(%d+) (%d+) (%d+) (.+)$')
  local noted, turns = true, takes ~= '-' and takes ~= '+'
  if not due or due - clock > math.max(most_wait, wait) then -- the clock may have been set back
    due, wait, freed, takes = clock + soon, least_wait, leaves and clock or 0, shared and '+' or '-'
    polls_until = shared and due or nil
  elseif turns and clock < due + 0 then
    polls_until, noted = not shared and due + 0 or nil, false
  elseif turns then
    wait = calls_of(take_call) - takes > 0 and least_wait or math.max(wait / 2, math.min(1.5 * wait, most_wait))
    due, freed, takes = clock + wait, leaves and clock or 0, '-'
  elseif shared and clock < due + 0 then
    polls_until, noted = takes == '+' and due + 0 or nil, freed ~= '0'
    freed = 0
  elseif shared and takes == '-' then
    polls_until = clock + soon
    due, freed, takes = polls_until, 0, '+'
  elseif shared then -- a slow reader
    wait = math.min(8 * wait, longest_wait)
    due, takes = clock + wait, '-'
  elseif leaves then
    freed, noted = clock, freed == '0'
  elseif freed ~= '0' and clock - freed >= (takes == '-' and pause or soon) then -- whoever polls could have had one
    due, freed, takes = clock + wait, 0, '-'
  elseif takes == '+' or clock >= due + 0 then
    local late = takes == '+' and (freed ~= '0' and freed or clock) - due or 0 -- a slow reader
    wait, polls_until = math.max(wait, math.min(80 * late, longest_wait)), clock + polls_turn
    due, freed, takes = polls_until, 0, calls_of(take_call)
    note(suffix, due, 'polls')
  else
    freed, noted = 0, freed ~= '0'
  end
  if noted then
    local lasts = string.format('%.0f', wait / 1000 + 10000)
    pcall('SET', busy, string.format('%.0f %.0f %.0f ', due, wait, freed) .. takes, 'PX', lasts)
  end
end
