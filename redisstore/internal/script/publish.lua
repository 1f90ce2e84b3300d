-- publish.lua publishes a message to an agent.
--
-- ARGV[1]  the agent's channel
-- ARGV[2]  the message
--
-- Reply: how many clients of this server have got it.

return redis.call('PUBLISH', ARGV[1], ARGV[2])
