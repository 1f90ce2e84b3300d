package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tetratelabs/wazero"

	"github.com/lockagent/lockagent/simulate/plan"
)

// mutation is a defect that the locks do not have, and that a patch puts into them. Its file is that patch, behind
// lines that say which run shows the defect.
type mutation struct {
	name  string
	file  string // its whole path
	run   settings
	shows string // a part of what the judges say of the run
}

// settings are what makes the plan of a run.
type settings struct {
	seed   uint64
	change string  // as plan.Plan.Change reads it
	faults *string // in place of those of the seed, or nil
}

// plan makes the plan of a run.
func (s *settings) plan() (plan.Plan, error) {
	p := plan.New(s.seed)
	if err := p.Change(s.change); err != nil {
		return p, err
	}
	if s.faults != nil {
		faults, err := plan.Parse(*s.faults)
		if err != nil {
			return p, err
		}
		p.Faults = faults
	}
	return p, p.Check()
}

// mutations is where the mutations are. The program runs in its directory.
const mutations = "mutations"

// readMutation reads the mutation with a name.
func readMutation(name string) (*mutation, error) {
	file, err := filepath.Abs(filepath.Join(mutations, name+".patch"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("there is no mutation %q: %w", name, err)
	}
	m := &mutation{name: name, file: file}
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan() && lines.Text() != ""; {
		if err := m.set(lines.Text()); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, lines.Text(), err)
		}
	}
	return m, nil
}

// set takes a line of those before the patch.
func (m *mutation) set(line string) (err error) {
	word, value, _ := strings.Cut(line, ": ")
	switch word {
	case "seed":
		m.run.seed, err = strconv.ParseUint(value, 10, 64)
	case "plan":
		m.run.change = value
	case "faults":
		m.run.faults = &value
	case "shows":
		m.shows = value
	default:
		err = fmt.Errorf("it begins with none of seed, plan, faults and shows")
	}
	return err
}

// tries is in how many runs a mutation is looked for, from the seed in its file on. Any change of the locks changes the
// times in all runs, and then another seed may show it. The rarest one showed in 6 of 60 runs.
const tries = 100

// hunt looks for the run that shows the mutation of a machine. It returns that run and what the judges say of it, or
// nil if they find the mutation in no run.
func (s *simulation) hunt(ctx context.Context) (*outcome, verdict, error) {
	of := s.settings
	for range tries {
		p, err := of.plan()
		if err != nil {
			return nil, verdict{}, err
		}
		o, err := s.machine.run(ctx, p, nil)
		if err != nil {
			return nil, verdict{}, err
		}
		if v := judge(o); strings.Contains(strings.Join(v.wrong, "\n"), s.mutation.shows) {
			return o, v, nil
		}
		of.seed++
	}
	return nil, verdict{}, nil
}

// show runs what shows the mutation.
func (s *simulation) show(ctx context.Context) error {
	s.seed = s.mutation.run.seed
	o, v, err := s.hunt(ctx)
	if err != nil {
		return err
	}
	if o == nil {
		return fmt.Errorf(
			"no run from seed %d on shows %s: run -mutation %s -seeds 200", s.seed, s.mutation.name, s.mutation.name,
		)
	}
	fmt.Fprint(s.out, s.report(o, v))
	return errFailed
}

// newMutant builds and compiles the guest with a mutation. That takes about a minute each time: nothing of it is kept.
func newMutant(ctx context.Context, m *mutation) (*machine, error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.overlay(ctx, dir)
	if err != nil {
		return nil, err
	}
	code, err := build(ctx, filepath.Join(dir, "guest.wasm"), "-overlay", overlay)
	if err != nil {
		return nil, err
	}
	return compile(ctx, code, wazero.NewRuntimeConfig())
}

// overlay writes the files that the mutation changes into a directory, and a file for -overlay of the Go command, which
// has them take the place of those of the module. It returns that file.
func (m *mutation) overlay(ctx context.Context, dir string) (file string, err error) {
	changed, err := m.changed(ctx)
	if err != nil {
		return "", err
	}
	var list struct{ Replace map[string]string }
	list.Replace = make(map[string]string)
	for _, name := range changed {
		of, err := filepath.Abs(filepath.Join("..", name))
		if err != nil {
			return "", err
		}
		list.Replace[of] = filepath.Join(dir, name)
		if err := copyFile(list.Replace[of], of); err != nil {
			return "", err
		}
	}
	if text, err := git(ctx, dir, "apply", m.file); err != nil {
		return "", fmt.Errorf("%s does not apply any more: make it anew: %w\n%s", m.file, err, text)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

// changed are the files that the mutation changes.
func (m *mutation) changed(ctx context.Context) (names []string, err error) {
	text, err := git(ctx, filepath.Dir(m.file), "apply", "--numstat", m.file)
	if err != nil {
		return nil, fmt.Errorf("%s is no patch: %w\n%s", m.file, err, text)
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 3 { // lines added, lines removed, name
			names = append(names, fields[2])
		}
	}
	return names, nil
}

// git runs git in a directory that counts as none of a repository: then it takes the names in a patch as they are.
func git(ctx context.Context, dir string, args ...string) (text string, err error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir, command.Env = dir, append(
		os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_DIR="+os.DevNull,
	)
	out, err := command.CombinedOutput()
	return string(out), err
}

func copyFile(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
