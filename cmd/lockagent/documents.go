package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
	"github.com/lockagent/lockagent/internal/config"
)

// documents are the pages of the manual that are about no verb.
func documents() []*manual.Document {
	return []*manual.Document{exitDocument(), recipesDocument(), settingsDocument()}
}

// documentOf is the document that somebody names, with or without the name of the program, or nil.
func documentOf(args []string) *manual.Document {
	for _, d := range documents() {
		if len(args) == 1 && (args[0] == d.Name || args[0] == strings.TrimPrefix(d.Name, "lockagent-")) {
			return d
		}
	}
	return nil
}

// documentPage is the page of a document.
func documentPage(d *manual.Document) string {
	also := []string{"lockagent(1)"}
	for _, other := range documents() {
		if other.Name != d.Name {
			also = append(also, other.Reference())
		}
	}
	return d.Page(manualVersion(), also...)
}

// alsoOf are the documents that the page of a verb names.
func alsoOf(cmd *cobra.Command) (also []string) {
	also = append(also, exitDocument().Reference())
	if !cmd.HasParent() || cmd.GroupID == "locks" {
		also = append(also, recipesDocument().Reference())
	}
	if !cmd.HasParent() || cmd.Flags().Lookup(config.FileFlag) != nil {
		also = append(also, settingsDocument().Reference())
	}
	return also
}

func exitDocument() *manual.Document {
	return &manual.Document{
		Name: "lockagent-exit", Section: 7, Short: "the exit codes of lockagent",
		Parts: []manual.Part{
			{
				Title: "DESCRIPTION",
				Text: "Every verb of lockagent ends with one of these codes. Its help and its page of the manual have only its " +
					"own. Those from 64 to 78 are those of sysexits.h, and those from 126 on are the shell's.",
			},
			exitManual(""),
		},
	}
}

// exampleSettings is a file that somebody might have.
const exampleSettings = `host: web-1
redis:
  url: rediss://lockagent@redis.example:6379
  password_file: /etc/lockagent/redis.password
lease:
  duration: 10s
rules:
- match: "deploy/**"
  allow: [acquire, look, watch]
  groups: [deploy]
- match: "**"
  allow: [acquire, look, watch, operate]
  users: [root]
web:
  listen: 127.0.0.1:7070`

// settingsDocument is made of the table of settings.
func settingsDocument() *manual.Document {
	settings := manual.Part{
		Title: "SETTINGS", Text: "A change takes effect at the next start of the daemon, or at a reload where that is said.",
	}
	list := func(title, text, section string) {
		p := manual.Part{Title: title, Text: text}
		for _, s := range config.All() {
			if s.Section() == section {
				p.Items = append(p.Items, manual.Item{Term: s.Key, Text: settingText(s)})
			}
		}
		settings.Parts = append(settings.Parts, p)
	}
	list("without a section", "These stand at the beginning of a line.", "")
	for _, s := range config.Sections() {
		list(s.Name, s.Help, s.Name)
	}
	return &manual.Document{
		Name: "lockagent.yaml", Section: 5, Short: "the settings of the daemon",
		Parts: []manual.Part{
			{Title: "DESCRIPTION", Text: "lockagent serve needs no configuration. Every setting has a default. The first " +
				"of these places that has a value counts: a flag of lockagent serve, a variable LOCKAGENT_... of the " +
				"environment, the configuration file, the default.\n\n" +
				"The file is YAML. A key that is not known is an error, and so is one that is there twice. lockagent config " +
				"validate says everything that is wrong. lockagent config show says where each value comes from. lockagent " +
				"config default prints a file with all settings.\n\n" +
				"SIGHUP has the daemon read the file again. If anything in it is wrong, the daemon goes on with what it had."},
			{Title: "FILES", Text: "The file is the first of these.", Items: []manual.Item{
				{Term: "the one that --config names", Text: "A flag of serve, and of the verbs of config."},
				{Term: "$LOCKAGENT_CONFIG", Text: "A variable of the environment."},
				{Term: "$XDG_CONFIG_HOME/lockagent/config.yaml", Text: "Without that variable ~/.config/lockagent/config.yaml."},
				{Term: "/etc/lockagent/config.yaml", Text: "The file of the host."},
			}},
			{Title: "VALUES", Items: []manual.Item{
				{Term: "duration", Text: "Such as 1m30s. A unit is needed: ns, us, ms, s, m or h."},
				{Term: "size", Text: "Such as 64MiB. A unit is needed: B, kB, MB, GB, TB, or KiB, MiB, GiB, TiB."},
				{Term: "mode", Text: `Four octal digits in quotes, such as "0660".`},
				{Term: "path", Text: "Absolute. ${NAME} stands for a variable of the environment, which must be there."},
			}},
			settings,
			{Title: "EXAMPLES", Code: exampleSettings},
		},
	}
}

// settingText is what there is to say of a setting.
func settingText(s *config.Setting) string {
	text := s.Describe() + " It is of the type " + s.Type() + "."
	if s.Default != "" {
		text += " Default: " + s.Default + "."
	}
	if s.Flag != "" {
		text += " The flag is --" + s.Flag + ", and the variable " + s.Variable() + "."
	}
	if s.Live {
		text += " A reload is enough."
	}
	return text
}
