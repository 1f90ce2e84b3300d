// Package archtest checks the rules of this module, and has nothing but tests. For example: which
// package may import which other one, that no exported type is one of the actor library, and that
// every package has a comment. A test that fails prints the reason of its rule.
package archtest
