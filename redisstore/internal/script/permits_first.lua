-- permits_first.lua is a part of the short ways for permits: the id of the first permit of a tenure, as ids_of in
-- permits.lua makes it.
local hex = redis.sha1hex(tenure .. '/1')
local id = struct.pack('>I4I4I4I4', tonumber(string.sub(hex, 1, 8), 16), tonumber(string.sub(hex, 9, 16), 16),
  tonumber(string.sub(hex, 17, 24), 16), tonumber(string.sub(hex, 25, 32), 16))
