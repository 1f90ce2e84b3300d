// Package archtest checks the rules of this module, and has nothing but tests. Some of the rules:
// a package imports only what it may, no exported type comes from the actor library, and every
// package has a comment. A test that fails prints the reason of its rule.
package archtest
