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
	tokens map[string]int64 // guarded by mu; of each order, its newest
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
	if t.tokens == nil {
		t.tokens = make(map[string]int64)
	}
	if t.tokens[id] > token {
		return driver.RowsAffected(0), nil
	}
	t.tokens[id] = token
	return driver.RowsAffected(1), nil
}
