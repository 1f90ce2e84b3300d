-- present.lua is a part of the short ways of scripts that acquire. In a Cluster it sees whether a name is that of the
-- node's incarnation, without a grace period: a slot may have a name that the node had before a failover. clock is the
-- name of the clock.
local tag = clock ~= 'lockagent_clock' and string.match(name, '@(%d+)')
local present = not tag or type(pcall('ZSCORE', 'lockagent_clock:{' .. tag .. '}', name)) == 'string'
