-- rw.lua is a part of the scripts for read/write locks, which needs holders.lua. server is the server's own time in microseconds.
--
-- The lock is a hash with the field "mode". A tenure that writes is the field "<tenure>:write", and has the
-- hash alone: its lease is that of the key. A tenure that reads is the field "<tenure>". As long as its lease
-- lasts, there is the key "{N}:<tenure>:rwlock_timeout:1", for Redisson. Our own scripts find the ends of
-- these leases in the zset lockagent_readers:{N}, in ms of the server's clock. A reader that is not there is
-- another program's, or was let in by a script that could not reach that key. The scripts leave such a
-- reader alone until the hash ends: Redisson 3.44 to 3.52 does not renew all of its keys.
local wall = math.floor(server / 1000)

local function timeout_key(suffix, tenure)
  return string.sub(their_suffix(suffix), 2) .. ':' .. tenure .. ':rwlock_timeout:1'
end

-- The tenure of a field.
local function tenure_of(field)
  return (string.gsub(field, ':write$', ''))
end

-- Finds who has a lock, and removes the readers whose leases are over, unless it must not write. Returns the
-- text of an error, or else nil, the mode, the holders' fields, and whether these are all. The mode is nil if the lock
-- is free.
local function look(lock, suffix, dry)
  local err, first, _, _, mode, fields, whole = holders(lock)
  mode = mode or first and not err and call('HGET', lock, 'mode') -- a large hash may not begin with it
  if err or first and not mode then
    return err or 'KIND ' .. kind_of(suffix)
  end
  local readers, over, list, gone = 'lockagent_readers' .. suffix, {}, {}, {}
  if mode == 'read' then
    for _, tenure in ipairs(pcall('ZRANGEBYSCORE', readers, '-inf', wall, 'LIMIT', 0, 64)) do
      over[tenure] = true
    end
  end
  for f = 1, first and #fields or 0, 2 do
    if over[fields[f]] then
      gone[#gone + 1] = fields[f]
    elseif fields[f] ~= 'mode' then
      list[#list + 1] = fields[f]
    end
  end
  local free = not list[1] and (whole or not first)
  if gone[1] and not dry then
    call('HDEL', lock, unpack(gone))
    call('ZREM', readers, unpack(gone))
    if free then
      call('DEL', lock)
    end
  end
  if free then
    mode = nil
  end
  return nil, mode, list, whole
end

-- Starts the lease of a reader, in ms, anew. It never ends earlier than before.
local function keep(suffix, tenure, lease, alone)
  local readers, ends = 'lockagent_readers' .. suffix, wall + lease
  if not alone then
    local before = pcall('ZSCORE', readers, tenure)
    ends = math.max(ends, type(before) == 'string' and before + 0 or 0)
  end
  local key, left = timeout_key(suffix, tenure), string.format('%.0f', ends - wall)
  pcall('PEXPIRE', key, left) -- Redis lets a script that has written something write on, also if the server is full
  pcall('SET', key, '1', 'PX', left)
  if not alone then
    pcall('ZADD', readers, string.format('%.0f', ends), tenure)
    local lasts = pcall('PTTL', readers)
    if type(lasts) == 'number' and lasts < ends - wall then
      pcall('PEXPIRE', readers, left)
    end
  end
end

-- Ends a reader.
local function drop(lock, suffix, tenure)
  call('HDEL', lock, tenure)
  pcall('ZREM', 'lockagent_readers' .. suffix, tenure)
  pcall('DEL', timeout_key(suffix, tenure))
end
