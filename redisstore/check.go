package redisstore

import (
	"fmt"
	"strings"

	"github.com/lockagent/lockagent"
)

// request is what all requests about a tenure have.
type request interface{ Check() error }

// check refuses requests that are out of bounds, and locks that are called like
// one of our own keys.
func check(name lockagent.Name, req request) error {
	if err := req.Check(); err != nil {
		return err
	}
	return checkOwn(name)
}

func checkName(name lockagent.Name) error {
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return err
	}
	return checkOwn(name)
}

func checkOwn(name lockagent.Name) error {
	if strings.HasPrefix(string(name), reserved) {
		return &lockagent.NameError{Name: string(name), Reason: fmt.Sprintf("names that begin with %q are those of the store's own keys; choose another", reserved)}
	}
	return nil
}
