-- notes.lua is a part of scripts that release.

local notes_kept = 60000 -- in ms

-- Adds to the notes about a lock, and removes a few that are too old. The key may be spoilt: then
-- there are none.
local function note(suffix, score, member)
  local notes = 'lockagent_notes' .. suffix
  pcall('ZADD', notes, string.format('%.0f', score), member)
  pcall('PEXPIRE', notes, notes_kept)
  local late = string.format('%.0f', clock - notes_kept * 1000)
  local old = pcall('ZRANGEBYSCORE', notes, '-inf', late, 'LIMIT', 0, 2)
  if old[1] then
    call('ZREM', notes, unpack(old))
  end
end
