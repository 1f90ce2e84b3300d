-- ways.lua is a part of scripts that send messages. A room says how messages travel: to all who subscribe at a "single"
-- server, "sharded" to those who subscribe at the node of the slot, in a Cluster of Redis 7 or newer, or "unqueued" to
-- all nodes, where nobody can count who listens.
--
-- The rule for all scripts that pass a lock or permits: a tenure begins only for an agent that ways_listeners counts.
-- An agent that is not counted may hear the message all the same, and it believes what it hears: replicas send messages
-- on. To begin a tenure, tell of it, and take it back because nobody was counted would be to grant the lock twice.

-- Publishes a message. Returns how many heard it, or an error if the user may not publish there.
local function ways_publish(room, channel, message)
  return pcall(room == 'sharded' and 'SPUBLISH' or 'PUBLISH', channel, message)
end

-- Reports whether somebody heard a message, by the reply to it.
local function ways_was_heard(reply)
  return type(reply) == 'number' and reply > 0
end

-- Returns how many programs listen to each of some channels: to the p-th at 2p.
local function ways_listeners(room, names)
  return call('PUBSUB', room == 'sharded' and 'SHARDNUMSUB' or 'NUMSUB', unpack(names))
end

-- Returns how many of those are outsiders, if the first two channels are those of a lock and lockagent_agents.
local function ways_outsiders_among(counts)
  return math.max(0, counts[2] - counts[4])
end

-- Returns how many outsiders listen to the channel of a lock. suffix is that of our keys for it.
local function ways_outsiders(room, channel, suffix)
  return ways_outsiders_among(ways_listeners(room, {channel, 'lockagent_agents' .. suffix}))
end

-- Returns the channel on which an agent hears what is for it alone, about one lock.
local function ways_channel_of(room, agent, suffix)
  return 'lockagent_agent:' .. (agent or '') .. (room == 'single' and '' or suffix)
end

-- Tells an agent something, wherever it listens. Returns as ways_publish.
local function ways_tell(agent, message)
  return pcall('PUBLISH', 'lockagent_agent:' .. agent, message)
end

-- Tells an agent that another one wants what a tenure of it has. lock is as in tenure.lua. Returns as ways_publish.
local function ways_want(lock, agent, tenure)
  return ways_tell(agent, lock.kind .. 'wanted ' .. tenure .. ' ' .. lock.name)
end
