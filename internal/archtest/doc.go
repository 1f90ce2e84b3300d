// Package archtest holds the module to its own rules: which package may import
// which, that no type of the actor library shows outside, that every package says
// what it is for, and a few habits that are easier to keep than to restore. It has
// nothing but tests. Each rule carries its reason, which is printed when the rule
// is broken.
package archtest
