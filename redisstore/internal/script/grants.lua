-- grants.lua is a part of scripts that acquire. message_kind comes before each message to an agent. held_as is the value of the fields of
-- tenures, see kinds.lua.

-- Grants a lock that is free, or that the tenure has already. Another call for the tenure may
-- just have been granted the same token. The lock then lasts for the lease at least. If left is nil, the caller sees to that.
-- count is what the tenure has in place of held_as, or nil.
local token = first
local function grant(lock, tenure, lease, left, own, count)
  if own then
    clock = clock + 1
    token, kept = string.format('%.0f', clock), false
  end
  if not kept then
    call('ZADD', key, token, name)
    kept = true
  end
  call('HSET', lock, tenure, count or held_as)
  if left and left < lease + 0 then
    call('PEXPIRE', lock, lease)
  end
end

-- Tells the agent that has a lock that another one wants it. It reports whether the holder is an agent. One with
-- another identity is known if it listens at this server. It tells at every attempt: the message may have been
-- lost, and a failover may bring a tenure back behind one that waits already.
local function want(lock, tenure, holder)
  local agent = string.match(holder or '', '^(.*):%d+$')
  if agent and agent ~= string.match(tenure, '^(.*):') then
    local heard = pcall('PUBLISH', 'lockagent_agent:' .. agent, message_kind .. 'wanted ' .. holder .. ' ' .. lock)
    return is_agent(holder) or type(heard) == 'number' and heard > 0
  end
  return agent ~= nil
end

-- Returns how many ms are left of the time for which a free lock is kept for outsiders. If that is more
-- than such a time lasts, the clock was set back.
local function kept_for(outsiders_until, most)
  local left = outsiders_until and math.ceil((outsiders_until - clock) / 1000) or 0
  return left <= most and left or 0
end
