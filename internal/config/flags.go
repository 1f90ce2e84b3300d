package config

import (
	"github.com/spf13/pflag"
)

// FileFlag is the flag that names the configuration file.
const FileFlag = "config"

// AddFlags adds a flag for each setting that has one, and one for the file. They take any value: [Load] checks it,
// so that all errors come together.
func AddFlags(flags *pflag.FlagSet) {
	flags.String(
		FileFlag, "",
		"`file` with settings (or $"+fileVariable+"); by default $XDG_CONFIG_HOME/lockagent/config.yaml or "+systemFile,
	)
	for _, s := range table {
		if s.Flag == "" {
			continue
		}
		f := flags.VarPF(&flagValue{text: s.Default, kind: s.kind}, s.Flag, "", s.Usage+" (or $"+s.Variable()+")")
		if _, ok := s.kind.(boolean); ok {
			f.NoOptDefVal = "true"
		}
	}
}

// Given returns the flags of [AddFlags] that were given, for [Inputs].
func Given(flags *pflag.FlagSet) map[string]string {
	given := make(map[string]string)
	flags.Visit(func(f *pflag.Flag) {
		if IsSetting(f) || f.Name == FileFlag {
			given[f.Name] = f.Value.String()
		}
	})
	return given
}

// IsSetting reports whether a flag is that of a setting.
func IsSetting(f *pflag.Flag) bool {
	_, ours := f.Value.(*flagValue)
	return ours
}

// flagValue is a flag that is not checked yet.
type flagValue struct {
	text string
	kind kind
}

func (v *flagValue) String() string { return v.text }

func (v *flagValue) Set(text string) error {
	v.text = text
	return nil
}

// Type is what the library calls such a value.
func (v *flagValue) Type() string {
	switch v.kind.(type) {
	case boolean:
		return "bool"
	case duration:
		return "duration"
	case number:
		return "int"
	}
	return "text"
}

// flags takes the settings on the command line.
func (l *loading) flags() {
	for _, s := range table {
		if text, given := l.in.Flags[s.Flag]; given && s.Flag != "" {
			l.give(s, Origin{Kind: FromFlag, Name: s.Flag}, text)
		}
	}
}
