-- ways.lua is a part of scripts that send messages. room says how they travel, see release.lua: in a Cluster of Redis
-- 7 or newer to those who subscribe at the node of the slot, and otherwise to all.
--
-- The rule for all scripts that pass a lock or permits: a tenure begins only for an agent that listeners counts. An
-- agent that is not counted may hear the message all the same, and it believes what it hears: replicas send messages
-- on. To begin a tenure, tell of it, and take it back because nobody was counted would be to grant the lock twice.
local publish = room == 'sharded' and 'SPUBLISH' or 'PUBLISH'

-- Returns how many programs listen to each of some channels: to the p-th at 2p.
local function listeners(names)
  return call('PUBSUB', room == 'sharded' and 'SHARDNUMSUB' or 'NUMSUB', unpack(names))
end

-- Returns how many of those are outsiders, if the first two channels are those of a lock and lockagent_agents.
local function outsiders_among(counts)
  return math.max(0, counts[2] - counts[4])
end

-- Returns how many outsiders listen to the channel of a lock.
local function outsiders_of(channel, suffix)
  return outsiders_among(listeners({channel, 'lockagent_agents' .. suffix}))
end

-- Returns the channel on which an agent hears what is for it alone, about one lock.
local function channel_of(agent, suffix)
  return 'lockagent_agent:' .. (agent or '') .. (room == 'single' and '' or suffix)
end
