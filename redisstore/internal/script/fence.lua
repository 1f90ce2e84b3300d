-- fence.lua is a part of the scripts for fenced locks, which run the script for plain locks and add the
-- tokens that Redisson has in a key of its own. The key of a lock has the greatest token that anybody has
-- used. While a tenure of ours has the lock, the key is above the tenure's tokens by what is left of the
-- lease, because the tenure may use a token in each microsecond. So a tenure that dies leaves a key that
-- is right when the lease is over. Redisson adds one to the key.
--
-- The last n of KEYS are the token keys. Before them come the keys of the script for plain locks.
local call, pcall, all, given = redis.call, redis.pcall, KEYS, ARGV
local greatest_token, day = 9007199254740991, 86400e6 -- in microseconds

--include holders.lua

-- Returns the number in a token key, or nil if there is no such key, and the text of an error.
local function fence_of(key)
  local value = pcall('GETRANGE', key, '0', '-1')
  if type(value) == 'table' then
    return nil, value.err
  elseif not string.find(value, '^%d+$') and (value ~= '' or pcall('EXISTS', key) == 1) then
    return nil, 'WRONGTYPE the token key has no number'
  end
  return tonumber(value)
end

-- Reports whether a tenure has a lock.
local function has(lock, tenure)
  local _, _, _, own = holders(lock, tenure)
  return own
end

local function keep(key, fence)
  call('SET', key, string.format('%.0f', math.min(fence, greatest_token))) -- without a TTL
end

-- Takes the place of the table redis in the script for plain locks. It tells that script what holders write, and puts the kind before
-- each message to an agent. passing changes the token of a pass. It is called again if the agent heard.
local function telling(passing)
  return {
    held_as = '4',
    call = call,
    error_reply = redis.error_reply,
    pcall = function(command, ...)
      if command ~= 'PUBLISH' and command ~= 'SPUBLISH' then
        return pcall(command, ...)
      end
      local channel, message = ...
      if string.find(message, '^wanted ') then
        message = 'fenced ' .. message
      elseif string.sub(message, 1, 7) == 'passed ' then
        local tenure, token, rest, lock = string.match(message, '^passed (%S+) (%S+) (%S+ %S+ %S+ %S+ %S+) (.*)$')
        token = passing(lock, token + 0)
        message = 'fenced passed ' .. tenure .. ' ' .. string.format('%.0f', token) .. ' ' .. rest .. ' ' .. lock
        local heard = pcall(command, channel, message)
        if type(heard) == 'number' and heard > 0 then
          passing(lock, token, true)
        end
        return heard
      end
      return pcall(command, channel, message)
    end,
  }
end
