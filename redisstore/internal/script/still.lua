-- still.lua is a part of scripts that use keys which they do not declare.

-- Returns an error if the slot of a lock moves to another node of the Cluster, or nil. Its keys are at two nodes then,
-- and a node refuses a command if it lacks one of the keys. Nobody makes the key with the "!". shared is the name of a
-- key that the locks of the slot share. The script ends with the error, before it has changed anything, and the agent
-- calls again.
local function moves(lock, shared)
  local refused = pcall('EXISTS', lock, shared .. '!')
  return type(refused) == 'table' and refused
end
