package redisson

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/redistest"
)

// Redisson needs no more rights than the page gives it, and as a user who has these it does all that it can do. Nothing
// is denied to it, also where Redisson would not say so.
func TestTheAccessRulesOfThePageSuffice(t *testing.T) {
	t.Parallel()
	user := redistest.WithUser("java", "secret", rulesOfThePage(t))
	t.Run("OneServer", func(t *testing.T) { t.Parallel(); javaHasRules(t, single(t, user)) })
	t.Run("Cluster", func(t *testing.T) { t.Parallel(); javaHasRules(t, cluster(t, user)) })
}

// rulesOfThePage are those lines of the page that begin with a pattern of names or a command, as a user has them.
func rulesOfThePage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", page))
	must(t, err)
	var rules []string
	sharded := redistest.Sharded(t)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "~orders/") ||
			strings.HasPrefix(line, "+") && (sharded || !strings.HasPrefix(line, "+spublish")) {
			rules = append(rules, strings.TrimSpace(line))
		}
	}
	return strings.Join(rules, " ")
}

func javaHasRules(t *testing.T, w *world) {
	java := w.startJava(t, short, "user=java", "password=secret")
	var names []string
	for _, o := range orphans {
		names = append(names, "orders/kept "+o.had)
		java.lock(o.had, names[len(names)-1], "main").lock(t, kept)
	}
	w.awaitRenewals(t, 1, names...)
	for i, o := range orphans {
		java.lock(o.had, names[i], "main").unlock(t)
	}
	kindsAlone(t, w, java)
	for _, node := range w.nodes {
		for _, entry := range node.Do("ACL", "LOG").([]any) {
			denied := fmt.Sprint(entry)
			if !strings.Contains(denied, "object test1") { // the page says why
				t.Error("denied:", denied)
			}
		}
	}
}
