-- rw.lua is a part of the scripts for read/write locks. It needs holders.lua before it, and ways.lua to tell whether a writer waits.
-- server is the server's own time in microseconds.
--
-- The lock is a hash with the field "mode". A tenure that writes is the field "<tenure>:write", and has the
-- hash alone: its lease is that of the key. A tenure that reads is the field "<tenure>". As long as its lease
-- lasts, there is the key "{N}:<tenure>:rwlock_timeout:1", for Redisson. Our own scripts find the ends of
-- these leases in the zset lockagent_readers:{N}, in ms of the server's clock. A reader that is not there is
-- another program's. The scripts leave such a
-- reader alone until the hash ends.
--
-- While the slot moves to another node, each key is at one of two. Only renewals and inspections run then,
-- as still.lua tells. So a reader's lease is over when the zset says so, its own key is gone, and this node would know
-- of the key.
local wall = math.floor(server / 1000)

local function timeout_key(suffix, tenure)
  return string.sub(their_suffix(suffix), 2) .. ':' .. tenure .. ':rwlock_timeout:1'
end

-- The tenure of a field.
local function tenure_of(field)
  return (string.gsub(field, ':write$', ''))
end

-- Reports whether the lease of a reader of a lock is over, whose end in the zset has passed. While the slot
-- moves, Redis refuses a command with two keys if one of them may be at the other node.
local function over(lock, suffix, tenure)
  return pcall('EXISTS', lock, timeout_key(suffix, tenure)) == 1
end

-- Finds who has a lock, and removes the readers whose leases are over, unless it must not write. Returns the
-- text of an error, or else nil, the mode, the holders' fields, and whether these are all. The mode is nil if
-- the lock is free.
local most_gone = 1000 -- readers that one look removes
local function look(lock, suffix, dry)
  local err, first, count, _, mode, fields, whole = holders(lock)
  mode = mode or first and not err and call('HMGET', lock, 'mode')[1] -- a large hash may not begin with it
  if err or first and not mode then
    return err or 'KIND ' .. (kind_of_holder(first, count) or 'plain')
  end
  local readers, passed, list, gone = 'lockagent_readers' .. suffix, {}, {}, {}
  if mode == 'read' then
    for _, tenure in ipairs(pcall('ZRANGEBYSCORE', readers, '-inf', wall, 'LIMIT', 0, most_gone)) do
      if over(lock, suffix, tenure) then
        gone[#gone + 1], passed[tenure] = tenure, true
      end
    end
  end
  if gone[1] and not dry then
    call('HDEL', lock, unpack(gone))
    call('ZREM', readers, unpack(gone))
    whole = whole or call('HLEN', lock) == 1 -- only the mode is left
  end
  for f = 1, first and #fields or 0, 2 do
    if not passed[fields[f]] and fields[f] ~= 'mode' then
      list[#list + 1] = fields[f]
    end
  end
  local free = not list[1] and (whole or not first)
  if free and gone[1] and not dry then
    call('DEL', lock)
  end
  return nil, not free and mode or nil, list, whole
end

-- Reports whether a writer whose agent listens waits ahead of a place, or at all.
local function writer_waits(suffix, ahead_of)
  for _, other in ipairs(pcall('ZRANGE', 'lockagent_queue' .. suffix, 0, 7)) do
    if other == ahead_of then
      return false
    elseif string.find(other, ':write$') then
      if listeners({channel_of(string.match(other, '^[^:]*'), suffix)})[2] > 0 then
        return true
      end
    end
  end
  return false
end

-- Starts the lease of a reader, in ms, anew. It never ends earlier than before.
local function keep(lock, suffix, tenure, lease)
  local readers, key = 'lockagent_readers' .. suffix, timeout_key(suffix, tenure)
  local before = pcall('PTTL', key)
  local most = math.max(lease + 0, type(before) == 'number' and before or 0)
  local left = string.format('%.0f', most)
  pcall('PEXPIRE', key, left) -- Redis lets a script that has written something write on, also if the server is full
  pcall('SET', key, '1', 'PX', left)
  pcall('ZADD', readers, 'GT', string.format('%.0f', wall + most), tenure)
  local lasts = pcall('PTTL', readers)
  if type(lasts) == 'number' and lasts < most then
    pcall('PEXPIRE', readers, left)
  end
end

-- Removes the keys of a tenure that does not read.
local function forget(suffix, tenure)
  pcall('ZREM', 'lockagent_readers' .. suffix, tenure)
  pcall('DEL', timeout_key(suffix, tenure))
end

-- Ends a reader.
local function drop(lock, suffix, tenure)
  call('HDEL', lock, tenure)
  forget(suffix, tenure)
end
