package config

import (
	"errors"
	"os/user"
	"slices"
	"strings"
	"testing"
)

// people are the users and groups of a host. One of them cannot be looked up.
type people struct{ users, groups []string }

func (p people) User(name string) error {
	switch {
	case name == "remote":
		return errors.New("the directory does not answer")
	case slices.Contains(p.users, name):
		return nil
	}
	return user.UnknownUserError(name)
}

func (p people) Group(name string) error {
	if slices.Contains(p.groups, name) {
		return nil
	}
	return user.UnknownGroupError(name)
}

func (p people) Users() []string  { return p.users }
func (p people) Groups() []string { return p.groups }

func TestCheckNames(t *testing.T) {
	host := people{[]string{"root", "deploy"}, []string{"lockagent", "www-data"}}
	h := newHost(t)
	h.write(
		"socket: {group: lockagnet}\nrules:\n- {match: a, allow: [look], users: [depoly, 0, root, remote]}\n- match: b\n" +
			"  allow: [look]\n  groups: [www-data, nothing-like-it, 33]\n",
	)
	c, err := Load(h.Inputs)
	if err != nil {
		t.Fatal(err)
	}
	problems, ok := errors.AsType[Problems](c.CheckNames(host))
	if !ok {
		t.Fatal("nothing is wrong")
	}
	got := strings.Split(strings.ReplaceAll(problems.Error(), c.File, "FILE"), "\n")
	want := []string{
		`FILE:1: socket.group names the group "lockagnet", which this host does not have; did you mean lockagent?`,
		`FILE:3: rules.1 names the user "depoly", which this host does not have; did you mean deploy?`,
		`FILE:3: rules.1 names the user "remote", which cannot be looked up: the directory does not answer`,
		`FILE:4: rules.2 names the group "nothing-like-it", which this host does not have`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("it says\n%s", strings.Join(got, "\n"))
	}
	h.write("rules: [{match: a, allow: [look], users: [deploy], groups: [www-data]}]\n")
	if c, err = Load(h.Inputs); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckNames(host); err != nil {
		t.Error(err)
	}
}
