package main

// The scripts of Redisson's plain lock, by their effects. The lock is a hash with one field for its owner.

// acquireScript takes the lock KEYS[1] for the owner ARGV[2], with a lease of ARGV[1] ms. It returns nil, or for how
// long somebody else has the lock.
const acquireScript = `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return nil
end
return redis.call('PTTL', KEYS[1])`

// releaseScript takes the lock KEYS[1] from its owner ARGV[2], and tells the channel KEYS[2]. The key KEYS[3] has what
// an earlier call of the same release did, for ARGV[3] ms. The script returns nil if the owner does not have the lock.
const releaseScript = `
local done = redis.call('GET', KEYS[3])
if done then
  return tonumber(done)
end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return nil
end
local left = redis.call('HINCRBY', KEYS[1], ARGV[2], -1)
if left > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  redis.call('SET', KEYS[3], 0, 'PX', ARGV[3])
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], '0')
redis.call('SET', KEYS[3], 1, 'PX', ARGV[3])
return 1`

// renewScript gives each lock of KEYS that has the owner of ARGV behind it another lease of ARGV[1] ms. It returns 1 or
// 0 for each.
const renewScript = `
local renewed = {}
for i, key in ipairs(KEYS) do
  renewed[i] = 0
  if redis.call('HEXISTS', key, ARGV[i + 1]) == 1 then
    redis.call('PEXPIRE', key, ARGV[1])
    renewed[i] = 1
  end
end
return renewed`
