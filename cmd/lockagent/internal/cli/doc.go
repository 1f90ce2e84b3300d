// Package cli has what the verbs of lockagent share: exit codes, errors that say what to try instead, flags that the
// environment can set, tables and other forms of output, and times as people write them. It links little else
// than the library for command lines.
package cli
