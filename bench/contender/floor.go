package contender

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/redis/rueidis"
)

// The floor is the least that a lock in Redis can cost its client. One script takes the key if
// it is free. Another script deletes the key if it is still ours. The floor does not wait, renew,
// or notice a loss.
var floorKinds = []Kind{
	{
		Name: "floor", Family: Floor,
		Setup: "rueidis as it comes: a pool of blocking connections that changes to four pipelined ones under load. What " +
			"the targets call the floor",
		Open: openFloor(rueidis.ClientOption{}),
	},
	{
		Name: "floor-1conn", Family: Floor,
		Setup: "rueidis with PipelineMultiplex -1: all calls share one pipelined connection, which is best where many " +
			"goroutines share few cores",
		Open: openFloor(rueidis.ClientOption{PipelineMultiplex: -1}),
	},
	{
		Name: "floor-pipe", Family: Floor,
		Setup: "rueidis with one connection and AlwaysPipelining: calls are pipelined even when there is only one",
		Open:  openFloor(rueidis.ClientOption{PipelineMultiplex: -1, AlwaysPipelining: true}),
	},
}

// floorLease is long enough that nothing runs out while it is measured.
const floorLease = "30000"

var (
	takeScript = rueidis.NewLuaScript(`return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`)
	giveScript = rueidis.NewLuaScript(
		`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
	)
	giveOnScript = rueidis.NewLuaScript(
		`if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[2], '0')
  return 1
end
return 0`,
	)
	takeOneScript = rueidis.NewLuaScript(`if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], ARGV[1], '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`)
	giveOneScript = rueidis.NewLuaScript(`if redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then
  redis.call('PUBLISH', ARGV[2], '0')
  return 1
end
return 0`)
	takeAllScript = rueidis.NewLuaScript(`local n = 0
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 0 then
    redis.call('HSET', KEYS[i], ARGV[1], '1')
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
    n = n + 1
  end
end
return n`)
	giveAllScript = rueidis.NewLuaScript(`local n = 0
for i = 1, #KEYS do
  if redis.call('HDEL', KEYS[i], ARGV[1]) == 1 then
    redis.call('PUBLISH', 'redisson_lock__channel:{' .. KEYS[i] .. '}', '0')
    n = n + 1
  end
end
return n`)
	extendsScript = rueidis.NewLuaScript(`local n = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then n = n + redis.call('PEXPIRE', key, ARGV[2]) end
end
return n`)
)

var errNotFree = errors.New("floor: the lock is not free")

// FloorClient is the floor, and the calls that floors beside locking are made of.
type FloorClient struct{ client rueidis.Client }

func openFloor(option rueidis.ClientOption) func(context.Context, string) (Contender, error) {
	option.DisableCache = true
	return func(_ context.Context, addr string) (Contender, error) {
		option := option
		option.InitAddress = []string{addr}
		client, err := rueidis.NewClient(option)
		if err != nil {
			return nil, err
		}
		return &FloorClient{client}, nil
	}
}

// OpenFloorClient opens the floor in its default configuration.
func OpenFloorClient(ctx context.Context, addr string) (*FloorClient, error) {
	c, err := openFloor(rueidis.ClientOption{})(ctx, addr)
	if err != nil {
		return nil, err
	}
	return c.(*FloorClient), nil
}

// Close implements [Contender].
func (f *FloorClient) Close() { f.client.Close() }

type floorHeld struct {
	floor       *FloorClient
	name, token string
}

// Lock implements [Contender], but it does not wait.
func (f *FloorClient) Lock(ctx context.Context, name string) (Held, error) {
	held := &floorHeld{f, name, randomToken()}
	if err := f.Take(ctx, name, held.token); err != nil {
		return nil, err
	}
	return held, nil
}

// OneToken is what all locks are taken with that are renewed together.
const OneToken = "one"

// LockAsOne is Lock with [OneToken].
func (f *FloorClient) LockAsOne(ctx context.Context, name string) (Held, error) {
	return &floorHeld{f, name, OneToken}, f.Take(ctx, name, OneToken)
}

func randomToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Take calls the script that takes a key.
func (f *FloorClient) Take(ctx context.Context, name, token string) error {
	err := takeScript.Exec(ctx, f.client, []string{name}, []string{token, floorLease}).Error()
	if rueidis.IsRedisNil(err) {
		return errNotFree
	}
	return err
}

// Give calls the script that deletes the key again.
func (f *FloorClient) Give(ctx context.Context, name, token string) error {
	return done(giveScript.Exec(ctx, f.client, []string{name}, []string{token}), 1)
}

// GiveOn is Give with a message to those who wait.
func (f *FloorClient) GiveOn(ctx context.Context, name, token, channel string) error {
	return done(giveOnScript.Exec(ctx, f.client, []string{name}, []string{token, channel}), 1)
}

// Publish sends a message.
func (f *FloorClient) Publish(ctx context.Context, channel string) error {
	return f.client.Do(ctx, f.client.B().Publish().Channel(channel).Message("0").Build()).Error()
}

// Subscribe calls receive for each message, until ctx ends. ready is called when
// the subscription stands.
func (f *FloorClient) Subscribe(ctx context.Context, channel string, ready, receive func()) error {
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" {
			ready()
		}
	})
	return f.client.Receive(
		ctx, f.client.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) { receive() },
	)
}

// Extend renews many locks in one call, and returns how many there were.
func (f *FloorClient) Extend(ctx context.Context, names []string, token string) (int64, error) {
	return extendsScript.Exec(ctx, f.client, names, []string{token, floorLease}).AsInt64()
}

// TakeAll takes locks as Redisson knows them, in one call and with the fewest commands: each is a
// hash with a lease.
func (f *FloorClient) TakeAll(ctx context.Context, names []string) error {
	if len(names) == 1 { // needs no loop
		return done(takeOneScript.Exec(ctx, f.client, names, []string{OneToken, floorLease}), 1)
	}
	return done(takeAllScript.Exec(ctx, f.client, names, []string{OneToken, floorLease}), len(names))
}

// GiveAll deletes them again, and tells those who wait.
func (f *FloorClient) GiveAll(ctx context.Context, names []string) error {
	if len(names) == 1 {
		return done(
			giveOneScript.Exec(ctx, f.client, names, []string{OneToken, "redisson_lock__channel:{" + names[0] + "}"}), 1,
		)
	}
	return done(giveAllScript.Exec(ctx, f.client, names, []string{OneToken}), len(names))
}

// done is an error unless that many keys were taken or given.
func done(reply rueidis.RedisResult, keys int) error {
	n, err := reply.AsInt64()
	if err == nil && n != int64(keys) {
		err = errNotFree
	}
	return err
}

func (h *floorHeld) Unlock() error {
	return h.floor.Give(context.Background(), h.name, h.token)
}

func (h *floorHeld) Lost() bool { return false }
