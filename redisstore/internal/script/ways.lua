-- ways.lua is a part of scripts that wake waiters. room says how the messages of our agents travel, see release.lua.
--
-- A Cluster has two ways for messages, and who subscribes for the one does not hear the other. Programs that share a lock may use different
-- ways: Redisson before 3.22 does not know SPUBLISH, and settings may differ. So the scripts send both ways. To PUBLISH costs a
-- message to each node of the Cluster. Therefore a lock, whose waiters look again when the lease ends, is published the other way only if
-- somebody listens who hears nothing else. Our agents hear both ways. They tell that to the scripts: in the other way, those with queues also
-- subscribe to lockagent_agents, and those without queues to lockagent_unqueued.
local publish = room == 'sharded' and 'SPUBLISH' or 'PUBLISH'
local other_publish = room == 'sharded' and 'PUBLISH' or room == 'classic' and 'SPUBLISH'

-- Returns how many programs hear only the other way. Programs with Redisson are counted: they subscribe at the node that serves the channel,
-- unless they are told to use replicas, or a proxy.
local function other_way(channel, suffix)
  if not other_publish then
    return 0
  end
  local counts = pcall('PUBSUB', room == 'sharded' and 'NUMSUB' or 'SHARDNUMSUB', channel, 'lockagent_agents' .. suffix, 'lockagent_unqueued' .. suffix)
  return counts.err and 0 or math.max(0, counts[2] - counts[4] - counts[6]) -- it is an error before Redis 7
end

-- Sends a message both ways, and returns how many programs heard it, as far as this node knows. It is an error if the user may not publish.
local function tell_both_ways(channel, payload)
  local heard, others = pcall(publish, channel, payload), other_publish and pcall(other_publish, channel, payload) or 0
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
