-- identity.lua gives a store an identity, unless it has one.
--
-- KEYS[1]  the identity: a string
-- ARGV[1]  the identity to give
--
-- Reply: "<at> <identity>". at is the time of the server. The identity is empty if another program has
-- put something else under the key.

local call, pcall = redis.call, redis.pcall
local time = call('TIME')
local identity = pcall('GETRANGE', KEYS[1], '0', '-1')
if identity == '' and call('EXISTS', KEYS[1]) == 0 then
  call('SET', KEYS[1], ARGV[1])
  identity = ARGV[1]
elseif type(identity) ~= 'string' or not string.find(identity, '^[%w_-]+$') or #identity > 64 then
  identity = ''
end
return time[1] .. string.sub('00000' .. time[2], -6) .. ' ' .. identity
