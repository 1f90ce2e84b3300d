-- ways.lua is a part of scripts that wake waiters. room says how the messages of our agents travel, see release.lua.
--
-- A Cluster has two ways for messages, and who subscribes for the one does not hear the other. Programs that share a lock may use different
-- ways: Redisson before 3.22 does not know SPUBLISH, and settings may differ. So the scripts send both ways. To PUBLISH costs a
-- message to each node of the Cluster. Therefore a lock, whose waiters look again when the lease ends, is published the other way only if
-- somebody listens who hears nothing else. Our agents hear both ways. They tell that to the scripts: they also subscribe to
-- lockagent_agents, both ways.
--
-- Behind a service of several servers ("unqueued") messages go the other way, too: programs with Redisson may know the nodes of its Cluster.
--
-- Agents with different settings share the queue of a lock. Those that publish to all nodes hear what is for them alone both ways, too. So only
-- their scripts have to look and send both ways.
--
-- The rule for all scripts that pass a lock or permits: a tenure begins only for an agent that listeners counts. An agent that is not counted
-- may hear the message all the same, and it believes what it hears: replicas send messages on, and PUBLISH tells all nodes of a Cluster.
-- To begin a tenure, tell of it, and take it back because nobody was counted would be to grant the lock twice.
local publish = room == 'sharded' and 'SPUBLISH' or 'PUBLISH'
local other_publish = room == 'sharded' and 'PUBLISH' or room ~= 'single' and 'SPUBLISH'
local numsub = room == 'sharded' and 'SHARDNUMSUB' or 'NUMSUB'

-- Returns how many programs hear only the other way. Programs with Redisson are counted: they subscribe at the node that serves the channel,
-- unless they are told to use replicas, or a proxy.
local function other_way(channel, suffix)
  if not other_publish then
    return 0
  end
  local counts = pcall('PUBSUB', room == 'sharded' and 'NUMSUB' or 'SHARDNUMSUB', channel, 'lockagent_agents' .. suffix)
  return counts.err and 0 or math.max(0, counts[2] - counts[4]) -- it is an error before Redis 7
end

-- Returns how many outsiders listen to the channel of a lock.
local function outsiders_of(channel, suffix)
  local counts = call('PUBSUB', numsub, channel, 'lockagent_agents' .. suffix)
  return math.max(0, counts[2] - counts[4]) + other_way(channel, suffix)
end

-- Returns the channel on which an agent hears what is for it alone, about one lock.
local function channel_of(agent, suffix)
  return 'lockagent_agent:' .. (agent or '') .. (room == 'single' and '' or suffix)
end

-- Returns how many programs listen to each of some channels of agents: those of the p-th at 2p.
local function listeners(names)
  local counts = call('PUBSUB', numsub, unpack(names))
  local others = room == 'classic' and pcall('PUBSUB', 'SHARDNUMSUB', unpack(names)) or {err = ''}
  for p = 2, others.err and 0 or #counts, 2 do
    counts[p] = counts[p] + others[p]
  end
  return counts
end

-- Returns how many of those are outsiders, if the first two channels are those of a lock and lockagent_agents.
local function outsiders_among(counts, channel, suffix)
  return math.max(0, counts[2] - counts[4]) + (room == 'sharded' and other_way(channel, suffix) or 0)
end

-- Sends a message to an agent, the way in which listeners counts it. Returns how many heard it, or an error.
local function tell_agent(channel, payload)
  if room ~= 'classic' or call('PUBSUB', 'NUMSUB', channel)[2] > 0 then
    return pcall(publish, channel, payload)
  end
  local heard = pcall('SPUBLISH', channel, payload) -- it is an error before Redis 7
  return type(heard) == 'number' and heard or 0
end

-- Sends a message both ways, and returns how many programs heard it, as far as this node knows. It is an error if the user may not publish.
-- other is the payload of the other way, if that is another one.
local function tell_both_ways(channel, payload, other)
  local heard, others = pcall(publish, channel, payload), other_publish and pcall(other_publish, channel, other or payload) or 0
  return type(heard) == 'number' and type(others) == 'number' and heard + others or heard
end

-- Wakes all who wait for a lock, and returns how many that are, ourselves included. It is an error if the user may not publish. If heard
-- is there, so many were told in our own way already.
local function wake_waiters(channel, suffix, payload, heard)
  local others = other_way(channel, suffix)
  heard = heard or pcall(publish, channel, payload)
  if others > 0 then
    pcall(other_publish, channel, payload)
  end
  return type(heard) == 'number' and heard + others or heard
end
