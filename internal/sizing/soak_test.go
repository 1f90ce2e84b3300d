//go:build soak

package sizing

import (
	"flag"
	"testing"
)

var (
	hosts = flag.Int("hosts", 100, "hosts of the fleet; 1000 take some GB of memory and some minutes")
	locks = flag.Int("locks", 500, "locks that each host keeps")
)

func TestSoakFleet(t *testing.T) { runFleet(t, *hosts, *locks) }

func TestSoakFleetInStep(t *testing.T) { runFleetInStep(t, *hosts, *locks) }
