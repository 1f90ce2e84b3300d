//go:build linux

package socket

import (
	"net"
	"testing"
)

func TestNotify(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify("READY=1"); err != nil {
		t.Errorf("without systemd: %v", err)
	}
	for _, path := range []string{somewhere(t), "@" + somewhere(t)} {
		systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", path)
		if err := Notify("READY=1", "STATUS=fine"); err != nil {
			t.Error(err)
		}
		told := make([]byte, 100)
		n, err := systemd.Read(told)
		if string(told[:n]) != "READY=1\nSTATUS=fine" || err != nil {
			t.Errorf("%s: systemd was told %q, %v", path, told[:n], err)
		}
		_ = systemd.Close()
		if err := Notify("READY=1"); err == nil {
			t.Errorf("%s: nobody listens, and that is no error", path)
		}
	}
}
