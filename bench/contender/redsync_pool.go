package contender

import (
	"context"
	"errors"
	"fmt"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/rueidis"
)

// rueidisPool is redsync on rueidis. It stands in for redsync's own adapter, and does what
// that does with a layer less.
type rueidisPool struct{ client rueidis.Client }

// Get implements redsync's Pool.
func (p rueidisPool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	return &rueidisConn{ctx, p.client}, nil
}

type rueidisConn struct {
	ctx    context.Context
	client rueidis.Client
}

func (c *rueidisConn) do(command rueidis.Completed) rueidis.RedisResult {
	return c.client.Do(c.ctx, command)
}

func (c *rueidisConn) Get(name string) (string, error) {
	value, err := c.do(c.client.B().Get().Key(name).Build()).ToString()
	return value, notNil(err)
}

func (c *rueidisConn) Set(name, value string) (bool, error) {
	return true, c.do(c.client.B().Set().Key(name).Value(value).Build()).Error()
}

func (c *rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	err := c.do(c.client.B().Set().Key(name).Value(value).Nx().Px(expiry).Build()).Error()
	return err == nil, notNil(err)
}

func (c *rueidisConn) PTTL(name string) (time.Duration, error) {
	ms, err := c.do(c.client.B().Pttl().Key(name).Build()).AsInt64()
	return time.Duration(ms) * time.Millisecond, err
}

func (c *rueidisConn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	texts := make([]string, len(keysAndArgs))
	for i, v := range keysAndArgs {
		texts[i] = fmt.Sprint(v)
	}
	keys, args := texts[:script.KeyCount], texts[script.KeyCount:]
	n := int64(len(keys))
	reply := c.do(c.client.B().Evalsha().Sha1(script.Hash).Numkeys(n).Key(keys...).Arg(args...).Build())
	if err, ok := rueidis.IsRedisErr(reply.Error()); ok && err.IsNoScript() {
		reply = c.do(c.client.B().Eval().Script(script.Src).Numkeys(n).Key(keys...).Arg(args...).Build())
	}
	value, err := reply.ToAny()
	return value, notNil(err)
}

func (c *rueidisConn) ScriptLoad(*redsyncredis.Script) error {
	return errors.ErrUnsupported // redsync's mutex asks for scripts by Eval alone
}

func (c *rueidisConn) Close() error { return nil }

func notNil(err error) error {
	if rueidis.IsRedisNil(err) {
		return nil
	}
	return err
}
