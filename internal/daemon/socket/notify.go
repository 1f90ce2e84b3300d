//go:build linux

package socket

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// Notify tells systemd the state of this process, such as "READY=1". Without systemd it does nothing.
func Notify(state ...string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // "@" begins an abstract name
	if err == nil {
		_, err = conn.Write([]byte(strings.Join(state, "\n")))
		_ = conn.Close()
	}
	if err != nil {
		return fmt.Errorf("socket: tell systemd: %w", err)
	}
	return nil
}
