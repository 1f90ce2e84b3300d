package forgettest

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RunsVariable is the variable of the environment that says how often to run each case.
const RunsVariable = "LOCKAGENT_TEST_RUNS"

// Runs is how often to run each case. It is 3 unless [RunsVariable] says otherwise.
func Runs(t testing.TB) int {
	t.Helper()
	runs, err := strconv.Atoi(cmp.Or(os.Getenv(RunsVariable), "3"))
	if err != nil || runs < 1 {
		t.Fatalf("%s: %q; set it to a number from 1 on", RunsVariable, os.Getenv(RunsVariable))
	}
	return runs
}

// Header is the beginning of a table whose rows are those of [Figures.Row].
const Header = "| case | runs | store changed | grants | overlaps | for | the longest | holds lost | cut off " +
	"| unanswered | tokens fell | nobody granted |\n|---|---|---|---|---|---|---|---|---|---|---|---|"

// Row is a row of a table.
func (f *Figures) Row(name string) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %s | %s | %s | %d | %d | %d | %s |",
		name, f.Runs, f.Outages, f.Grants, f.Overlaps, seconds(f.Overlapped), seconds(f.Longest), counted(f.Lost), f.CutOff,
		f.Unanswered, f.Fallen, seconds(f.Ungranted))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// counted lists how often there was what.
func counted(all map[string]int) string {
	var list []string
	for _, of := range slices.Sorted(maps.Keys(all)) {
		list = append(list, fmt.Sprint(all[of], " ", of))
	}
	return cmp.Or(strings.Join(list, ", "), "0")
}

// Details has what the row leaves out.
func (f *Figures) Details() string {
	return strings.Join(append([]string{"requests that ended with an error: " + counted(f.Refused)}, f.Notes...), "\n")
}
