package script

import (
	"testing"
)

// The texts for people. Servers before 7.0, and before 6.2, tell otherwise where in a script a command failed.
func TestTextsOfRefusals(t *testing.T) {
	const (
		reply     = "WRONGTYPE Operation against a key holding the wrong kind of value"
		wrongType = "lockagent: the key is used for something else than a lock; " +
			"choose another name or remove the key: " + reply
		defect = "ERR user_script:3: attempt to index a nil value script: d5442061, on @user_script:3."
	)
	for text, want := range map[string]string{
		reply: wrongType,
		reply + " script: d5442061, on @user_script:285.":                            wrongType,
		"ERR Error running script (call to f_d5442061): @user_script:285: " + reply:  wrongType,
		"ERR Error running script (call to f_d5442061): @user_script: 285: " + reply: wrongType,
		defect: "lockagent: store unavailable: " + defect,
	} {
		if got := Refused(text).Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
