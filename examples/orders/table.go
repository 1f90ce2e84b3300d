package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"
)

// table stands in for a database. It understands the one statement of charge.
type table struct {
	mu     sync.Mutex
	orders map[string]order // guarded by mu
}

type order struct {
	token   int64 // the newest
	charged bool
}

func (t *table) Connect(context.Context) (driver.Conn, error) { return t, nil }
func (t *table) Driver() driver.Driver                        { return nil }
func (t *table) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (t *table) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (t *table) Close() error                                 { return nil }

func (t *table) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	token, id := args[0].Value.(int64), args[1].Value.(string)
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.orders[id]; o.token > token || o.charged {
		return driver.RowsAffected(0), nil
	}
	if t.orders == nil {
		t.orders = make(map[string]order)
	}
	t.orders[id] = order{token, true}
	return driver.RowsAffected(1), nil
}
