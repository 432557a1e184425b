package centraltest

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server runs a PostgreSQL of a test's own, which the test may end and start
// again. It listens on a socket of its own.
type Server struct {
	t       testing.TB
	dir     string
	bin     string // directory of its programs
	as      *syscall.Credential
	process *exec.Cmd // nil: not running
}

// NewServer starts a server whose files are in dir; it ends with the test. Where
// PostgreSQL is not installed the test is skipped, or fails when
// EDGE_REQUIRE_POSTGRES_SERVER is set.
func NewServer(t testing.TB, dir string) *Server {
	t.Helper()
	s := &Server{t: t, dir: dir, bin: programs()}
	if s.bin == "" {
		if os.Getenv("EDGE_REQUIRE_POSTGRES_SERVER") != "" {
			t.Fatal("PostgreSQL is not installed")
		}
		t.Skip("NOT TESTED: a PostgreSQL that ends, since none is installed")
	}
	if os.Geteuid() == 0 { // it refuses to run as root
		s.become("postgres")
	}
	s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--wal-segsize=1", "--no-instructions")
	s.Start()
	t.Cleanup(func() { s.end(syscall.SIGINT) })
	return s
}

// programs returns the directory of initdb and postgres, "" for none.
func programs() string {
	if file, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(file)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // as Debian has them
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// become has the server run as another user, who gets its directory, and may
// pass through those above it that are the test's.
func (s *Server) become(name string) {
	s.t.Helper()
	who, err := user.Lookup(name)
	if err != nil {
		s.t.Fatal(err)
	}
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		s.t.Fatal(err)
	}
	gid, err := strconv.Atoi(who.Gid)
	if err != nil {
		s.t.Fatal(err)
	}
	s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := os.Chown(s.dir, uid, gid); err != nil {
		s.t.Fatal(err)
	}
	for up := filepath.Dir(s.dir); strings.HasPrefix(up, os.TempDir()+"/"); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o711); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, name), args...)
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Pdeathsig: syscall.SIGQUIT}
	return c
}

func (s *Server) run(name string, args ...string) {
	s.t.Helper()
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// URL returns the value of --database.
func (s *Server) URL() string {
	return "postgres://postgres@/postgres?sslmode=disable&host=" + url.QueryEscape(s.dir)
}

// Start starts the server, unless it runs, and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	if s.process != nil {
		if s.Answers() {
			return
		}
		s.end(syscall.SIGQUIT)
	}
	s.process = s.command("postgres", "-D", s.data(), "-c", "listen_addresses=", "-c", "unix_socket_directories="+s.dir,
		"-c", "shared_buffers=16MB", "-c", "max_wal_size=16MB", "-c", "min_wal_size=2MB")
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !s.Answers(); <-tick.C {
		if time.Now().After(deadline) {
			s.t.Fatal("PostgreSQL does not answer a minute after its start")
		}
	}
}

// Answers reports whether the server accepts connections.
func (s *Server) Answers() bool {
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return db.PingContext(ctx) == nil
}

// Crash ends the server at once: it has to recover when it starts again.
func (s *Server) Crash() { s.end(syscall.SIGQUIT) }

func (s *Server) end(how syscall.Signal) {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(how) // it may have ended by itself
	_ = s.process.Wait()              // which says by which signal
	s.process = nil
}
