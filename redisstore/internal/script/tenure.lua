-- tenure.lua is a part of scripts that begin tenures of locks with one holder each. A lock is a table:
--   name     the key
--   kind     what comes before each message to an agent: a word and a space, or ''
--   suffix   that of our keys for the lock, such as ":{a}"
--   room     how messages travel, see ways.lua
--   channel  the channel on which the waiters are woken
--   queue    the key of its queue
--   held_as  the value of the fields of tenures, see kinds.lua
--   fence    if it is fenced: the token key and the floor as key and floor, and fence_raise as raise. A release has
--            fence_lower as lower

--include clock.lua

--include holders.lua

--include ways.lua

-- Returns a lock.
local function tenure_lock(name, suffix, room, kind, held_as)
  return {
    name = name, kind = kind, suffix = suffix, room = room, held_as = held_as,
    channel = 'redisson_lock__channel' .. their_suffix(suffix), queue = 'lockagent_queue' .. suffix,
  }
end

-- Finds who has a lock.
--   who   a tenure
-- Returns how many ms are left of the lease, the holder, its count, and whether that is the tenure. If the lock is
-- free, nothing is left of a lease: -2. Returns nil and the text of an error if the key is no lock of this kind.
local function tenure_holder(lock, who)
  local left = call('PTTL', lock.name)
  if left == -2 then
    return left, nil, nil, false
  end
  local err, holder, count, own, mode = holders(lock.name, who)
  local another = holder and not own and other_kind(holder, count, lock.held_as)
  if err or mode or another then
    return nil, err or 'KIND ' .. (mode and 'readwrite' or another)
  end
  return left, holder, count, own
end

-- Begins a tenure of a lock that is free, or starts a lease anew.
--   time   see clock.lua. It moves on
--   who    the tenure
--   value  of its field
--   lease  in ms
--   left   how many ms are left of the key's life, or -2
--   own    whether the tenure has the lock already. Another call for it may just have been granted the same token
-- Returns the token as a text, or nil and the text of an error: if the clock was set back, or if the token key of the
-- lock is not right.
local function tenure_begin(lock, time, who, value, lease, left, own)
  local token, err = clock_token(time, own), 'ERR the clock was set back'
  local fence = lock.fence
  if token and fence then
    token, err = fence.raise(fence.key, token, fence.floor, lease + 0, own and left or 0, time)
  end
  if not token then
    return nil, err
  end
  call('HSET', lock.name, who, value)
  if left < lease + 0 then
    call('PEXPIRE', lock.name, lease)
  end
  return token
end

-- Tells the agent that has a lock that another one wants it. Reports whether the holder is an agent. One with another
-- identity is known if it listens at this server. It tells at every attempt: the message may have been lost, and a
-- failover may bring a tenure back behind one that waits already.
local function tenure_want(lock, who, holder)
  local agent = string.match(holder or '', '^(.*):%d+$')
  if agent and agent ~= string.match(who, '^(.*):') then
    return ways_was_heard(ways_want(lock, agent, holder)) or is_agent(holder)
  end
  return agent ~= nil
end
