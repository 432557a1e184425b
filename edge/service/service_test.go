package service

import (
	"net"
	"path/filepath"
	"testing"
)

// TestNotifyReady reads what systemd is sent, and tries no socket and one that is gone.
func TestNotifyReady(t *testing.T) {
	if err := notifyReady(""); err != nil {
		t.Error(err)
	}
	socket := filepath.Join(t.TempDir(), "notify")
	if err := notifyReady(socket); err == nil {
		t.Error("told a socket that is not there")
	}
	conn, err := net.ListenPacket("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := notifyReady(socket); err != nil {
		t.Fatal(err)
	}
	var got [64]byte
	n, _, err := conn.ReadFrom(got[:])
	if err != nil || string(got[:n]) != "READY=1" {
		t.Errorf("systemd was told %q, %v", got[:n], err)
	}
}
