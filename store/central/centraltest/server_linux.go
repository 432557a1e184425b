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
	s := prepare(t, dir)
	s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--wal-segsize=1", "--no-instructions")
	s.Start()
	return s
}

// NewStandby starts a server that follows primary, with its files in dir, until it
// is promoted.
func NewStandby(t testing.TB, primary *Server, dir string) *Server {
	t.Helper()
	s := prepare(t, dir)
	s.run("pg_basebackup", "-h", primary.dir, "-U", "postgres", "-D", s.data(), "-R", "-X", "stream", "--checkpoint=fast")
	s.Start()
	return s
}

// Promote makes a standby a server that takes writes.
func (s *Server) Promote() {
	s.t.Helper()
	s.run("pg_ctl", "promote", "-w", "-D", s.data())
}

// AwaitReplay waits until a standby has all that its primary has by now.
func (s *Server) AwaitReplay(primary *Server) {
	s.t.Helper()
	all := primary.Query("SELECT pg_current_wal_lsn()::text")
	for s.Query("SELECT pg_last_wal_replay_lsn() >= '"+all+"'") != "true" {
		if s.t.Context().Err() != nil {
			s.t.Fatal("the standby does not follow")
		}
	}
}

// prepare returns a server whose directory is ready, and that ends with the test.
func prepare(t testing.TB, dir string) *Server {
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
	t.Cleanup(func() { s.end(syscall.SIGINT) })
	return s
}

// programs returns the directory of PostgreSQL's programs, "" for none.
func programs() string {
	if file, err := exec.LookPath("initdb"); err == nil {
		if file, err = filepath.EvalSymlinks(file); err == nil { // the others are where it really is
			return filepath.Dir(file)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // as Debian has them
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// become makes the server run as another user, who gets its directory, and may
// pass through the directories above it that are the test's.
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

// URL returns the value of --database. With others, it is for the one of them all
// that takes writes.
func (s *Server) URL(others ...*Server) string {
	host, more := s.dir, ""
	for _, other := range others {
		host, more = host+","+other.dir, "&target_session_attrs=read-write"
	}
	return "postgres://postgres@/postgres?sslmode=disable&host=" + url.QueryEscape(host) + more
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
	tick := time.Tick(20 * time.Millisecond)
	for deadline := time.Now().Add(time.Minute); !s.Answers(); <-tick {
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

// Exec runs a statement as the superuser.
func (s *Server) Exec(statement string) {
	s.t.Helper()
	s.ask(func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
}

// Query returns the one value that a query of the superuser has, as text.
func (s *Server) Query(query string) (value string) {
	s.t.Helper()
	s.ask(func(ctx context.Context, db *sql.DB) error {
		return db.QueryRowContext(ctx, query).Scan(&value)
	})
	return value
}

func (s *Server) ask(question func(context.Context, *sql.DB) error) {
	s.t.Helper()
	db, err := sql.Open("pgx", s.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := question(s.t.Context(), db); err != nil {
		s.t.Fatal(err)
	}
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
