-- permits_id.lua is a part of the scripts for semaphores.

-- Returns the id of the k-th permit of a tenure, as Redisson keeps it: 16 bytes.
local function permit_id(tenure, k)
  local hex = redis.sha1hex(tenure .. '/' .. k)
  return struct.pack('>I4I4I4I4', tonumber(string.sub(hex, 1, 8), 16), tonumber(string.sub(hex, 9, 16), 16),
    tonumber(string.sub(hex, 17, 24), 16), tonumber(string.sub(hex, 25, 32), 16))
end
