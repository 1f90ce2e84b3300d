-- rw.lua is a part of the scripts for read/write locks. lock is as in tenure.lua, with the zset of our own readers as
-- readers. time is as in clock.lua.
--
-- The lock is a hash with the field "mode". A tenure that writes is the field "<tenure>:write", and has the hash alone:
-- its lease is that of the key. A tenure that reads is the field "<tenure>". As long as its lease lasts, there is the
-- key "{N}:<tenure>:rwlock_timeout:1", for Redisson. Our own scripts find the ends of these leases in the zset, in ms
-- of the server's clock. A reader that is not there is another program's. The scripts leave such a reader alone until
-- the hash ends. A place in the queue is a field.

--include holders.lua

-- Returns a lock. suffix is that of our keys, and room is as in ways.lua.
local function rw_lock(name, suffix, room)
  return {
    name = name, kind = 'readwrite ', suffix = suffix, room = room, held_as = '1', queue = 'lockagent_queue' .. suffix,
    channel = 'redisson_rwlock' .. their_suffix(suffix), readers = 'lockagent_readers' .. suffix,
  }
end

-- Returns the tenure of a field.
local function rw_tenure(field)
  return string.sub(field, -6) == ':write' and string.sub(field, 1, -7) or field
end

-- Returns the key that tells Redisson of a reader.
local function rw_timeout(lock, who)
  return string.sub(lock.channel, #'redisson_rwlock:' + 1) .. ':' .. who .. ':rwlock_timeout:1'
end

-- Reports whether a reader is over, whose end in the zset has passed. A slot may have moved here from a server whose
-- clock is behind. While it moves, Redis refuses a command with two keys if one of them may be at the other node.
local function rw_over(lock, who)
  return pcall('EXISTS', lock.name, rw_timeout(lock, who)) == 1
end

-- Finds who has a lock, and removes the readers that are over, unless dry. Returns the text of an error, or else nil,
-- the mode, the fields of the holders, and whether these are all. The mode is nil if the lock is free.
local most_gone = 1000 -- readers that one look removes
local function rw_look(lock, time, dry)
  local err, first, count, _, mode, fields, whole = holders(lock.name)
  mode = mode or first and call('HMGET', lock.name, 'mode')[1] -- a large hash may not begin with it
  if err or first and not mode then
    return err or 'KIND ' .. (kind_of_holder(first, count) or 'plain')
  end
  local wall, passed, list, gone = math.floor(time.server / 1000), {}, {}, {}
  if mode == 'read' then
    for _, who in ipairs(pcall('ZRANGEBYSCORE', lock.readers, '-inf', wall, 'LIMIT', 0, most_gone)) do
      if rw_over(lock, who) then
        gone[#gone + 1], passed[who] = who, true
      end
    end
  end
  for f = 1, first and #fields or 0, 2 do
    if not passed[fields[f]] and fields[f] ~= 'mode' then
      list[#list + 1] = fields[f]
    end
  end
  if gone[1] and not dry then
    call('HDEL', lock.name, unpack(gone))
    call('ZREM', lock.readers, unpack(gone))
    if call('HLEN', lock.name) == 1 then -- only the mode is left
      call('DEL', lock.name)
      whole = true
    end
  end
  return nil, (list[1] or first and not whole) and mode or nil, list, whole
end

-- Starts the lease of a reader, in ms, anew. It never ends earlier than before.
local function rw_keep(lock, time, who, lease)
  local key, wall = rw_timeout(lock, who), math.floor(time.server / 1000)
  local most = math.max(lease + 0, call('PTTL', key))
  call('PEXPIRE', key, most) -- Redis lets a script that has written something write on, also if the server is full
  pcall('SET', key, '1', 'PX', most)
  pcall('ZADD', lock.readers, 'GT', wall + most, who)
  call('PEXPIRE', lock.readers, math.max(most, call('PTTL', lock.readers)))
end

-- Ends a reader, and reports whether the lock had it.
local function rw_drop(lock, who)
  pcall('ZREM', lock.readers, who)
  pcall('DEL', rw_timeout(lock, who))
  return pcall('HDEL', lock.name, who) == 1
end
