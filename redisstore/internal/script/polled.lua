-- polled.lua is a part of other scripts: it tells whether anybody polls. Programs that poll call commands that no script of
-- ours calls: HEXISTS at a lock that is held, HGET at a read/write lock, and GET at a semaphore.

-- Reports whether somebody called a command at least four times a second, lately. So while the server counts no such calls,
-- nobody polls. If it does, they may be about something else.
--
-- key has "<time of the last look> <calls until then> <when somebody polled last>", in microseconds. value is what the key
-- has, or nil if that is not known.
local function polled(key, value, command, remembered, clock)
  local look_every, slowest_poll = 350000, 250000 -- a renewal comes after 400 ms, if it comes early
  if value == nil then
    value = pcall('GETRANGE', key, '0', '-1')
  end
  local looked, before, last = string.match(type(value) == 'string' and value or '', '^(%d+) (%d+) (%d+)$')
  local since = clock - (looked or 0)
  if since < 0 or since >= look_every then
--include calls.lua
    local calls = calls_of(command)
    last = looked and since > 0 and (calls - before) * slowest_poll >= since and clock or last or 0
    pcall('SET', key, string.format('%.0f %s %.0f', clock, calls, last), 'PX', '60000')
  end
  return last + 0 > 0 and clock - last < remembered
end
