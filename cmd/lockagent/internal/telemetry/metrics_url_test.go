package telemetry

import (
	"net"
	"testing"
)

// at is a listener somewhere.
type at struct {
	net.Listener
	addr net.TCPAddr
}

func (l at) Addr() net.Addr { return &l.addr }

// A page has an address that a browser can ask for.
func TestAddressOfAPage(t *testing.T) {
	for ip, want := range map[string]string{
		"::": "http://localhost:7070", "0.0.0.0": "http://localhost:7070", "127.0.0.1": "http://127.0.0.1:7070",
		"::1": "http://[::1]:7070",
	} {
		if got := URLOf(at{addr: net.TCPAddr{IP: net.ParseIP(ip), Port: 7070}}); got != want {
			t.Errorf("of %s it is %s, not %s", ip, got, want)
		}
	}
}
