// Package config reads the settings of the daemon.
//
// There is one table of settings. Flags, variables of the environment, the schema of the configuration file, the file
// that shows all defaults, and the documentation are made of it. A value comes from a flag, or else from a variable, or
// else from the file, or else it is the default. [Config] remembers where each value came from.
//
// [Load] is strict. It returns all errors together, as [Problems]. Each has its place, and often a guess at what was
// meant.
//
// No setting is a secret. Secrets are in files of their own, and settings name these files. Only a variable of the
// environment may have a URL with a password in it, and it is masked wherever it is shown.
//
// # Concurrency
//
// A [Config] does not change after [Load]. [Config.Reload] returns another one.
package config
