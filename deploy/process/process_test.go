package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/netutil"
)

// startingProcess is a process until its signal is received.
func startingProcess(t *testing.T) (p *Process, signal context.CancelFunc) {
	p = &Process{Logger: slog.New(slog.DiscardHandler)}
	p.signalled, signal = context.WithCancel(t.Context())
	p.Ctx, p.Fail = context.WithCancelCause(p.signalled)
	t.Cleanup(func() { p.Fail(nil) })
	return p, signal
}

// TestFailureDuringTheStart ends the process with its error, and not as if it was signalled,
// which it often is next: what watches it sees that it isn't ready.
func TestFailureDuringTheStart(t *testing.T) {
	p, signal := startingProcess(t)
	broken := errors.New("the spool is broken")
	p.Fail(broken)
	<-p.Ctx.Done()
	opening := fmt.Errorf("cannot open the identity: %w", p.Ctx.Err())
	other := errors.New("cannot open")
	for _, then := range []func(){func() {}, signal} {
		then()
		require.Equal(t, broken, p.failure())
		for _, p.started = range []bool{false, true} {
			require.Equal(t, broken, p.outcome(opening))
			require.Equal(t, broken, p.outcome(nil))
			require.Equal(t, broken, p.outcome(broken))
			require.ErrorIs(t, p.outcome(other), other)
			require.ErrorIs(t, p.outcome(other), broken)
		}
	}
}

// TestStopDuringTheStart is no failure, also when one follows from it.
func TestStopDuringTheStart(t *testing.T) {
	p, signal := startingProcess(t)
	require.NoError(t, p.failure())
	signal()
	<-p.Ctx.Done()
	p.Fail(errors.New("the spool is closed"))
	require.NoError(t, p.failure())
	require.NoError(t, p.outcome(fmt.Errorf("cannot open the identity: %w", p.Ctx.Err())))
	p.started = true
	require.NoError(t, p.outcome(nil))
}

// TestProcessClosesInReverse: parts stop before what was opened sooner, and the first error
// counts.
func TestProcessClosesInReverse(t *testing.T) {
	var order []string
	closer := func(name string) func() error {
		return func() error {
			order = append(order, name)
			return errors.New(name)
		}
	}
	err := new(Flags).Run(Build{}, "test", func(p *Process) error {
		p.AtEnd(closer("database"))
		p.Parts().Run("the loader", func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, "loader")
			return nil
		})
		p.AtEnd(closer("node"))
		return nil
	})
	require.EqualError(t, err, "node")
	require.Equal(t, []string{"node", "loader", "database"}, order)
}

// TestDoorHasRoomForSoMany: one connection more waits until another has gone.
func TestDoorHasRoomForSoMany(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })
	go func() { served <- Serve(ctx, netutil.LimitListener(ln, 2), answer) }()
	connect := func() net.Conn {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: door\r\n\r\n")
		require.NoError(t, err)
		return c
	}
	answered := func(c net.Conn) error {
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		return err
	}
	first, second := connect(), connect()
	require.NoError(t, answered(first))
	require.NoError(t, answered(second))
	third := connect()
	waited := make(chan error, 1)
	go func() { waited <- answered(third) }()
	_, err = io.WriteString(second, "GET / HTTP/1.1\r\nHost: door\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, answered(second))
	require.Empty(t, waited, "a request that came later on an open connection was answered first")
	require.NoError(t, first.Close())
	require.NoError(t, <-waited)
	require.NoError(t, second.Close())
	require.NoError(t, third.Close())
	stop()
	require.NoError(t, <-served)
}

// TestMakeDataDir makes its own folders and opens them again, and leaves others' alone.
func TestMakeDataDir(t *testing.T) {
	for _, c := range []struct {
		holds   string // a file; "" is nothing
		foreign bool
	}{
		{"", false}, {"LOCK", false}, {"control.db", false}, {"keys/root.vkey", false}, {"admin.json", false}, {"lost+found/x", false}, {".cache", false},
		{"letter", true}, {"keys/id_rsa", true}, {"packs/x", true},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if c.holds != "" {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, c.holds)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, c.holds), nil, 0o600))
		}
		err := MakeDataDir(dir)
		if c.foreign {
			require.ErrorIs(t, err, ErrForeign, c.holds)
			continue
		}
		require.NoError(t, err, c.holds)
		require.DirExists(t, dir)
	}
}

// TestEveryProcessTellsItsBuild: all that serve begin with the same registry.
func TestEveryProcessTellsItsBuild(t *testing.T) {
	b := ThisBuild("v1", "c9f006e")
	require.NoError(t, testutil.GatherAndCompare(newRegistry(b), strings.NewReader(`
		# HELP muniment_build_info The program that runs; always 1.
		# TYPE muniment_build_info gauge
		muniment_build_info{goversion="`+b.GoVersion+`",revision="`+b.Revision+`",version="`+b.Version+`"} 1
	`), "muniment_build_info"))
}

// TestTracesFlags: what can't be exported to is refused when the process starts, and without an endpoint nothing is traced.
func TestTracesFlags(t *testing.T) {
	for flags, want := range map[TracesFlags]string{
		{}:                             "",
		{Endpoint: "http://collector"}: "",
		{Endpoint: "collector:4318"}:   "--traces-endpoint must begin with http:// or https://",
		{Endpoint: "http://user:password@collector"}: "--traces-endpoint must begin with",
		{CA: "ca.pem"}: "--traces-ca needs a --traces-endpoint that begins with https://",
		{Endpoint: "http://collector", CA: "ca.pem"}:           "--traces-ca needs a --traces-endpoint",
		{Endpoint: "https://collector", CA: "/no such folder"}: "TLS for traces",
	} {
		var traced bool
		err := flags.Validate()
		if err == nil {
			err = (&Flags{Traces: flags}).Run(Build{}, "test", func(p *Process) error {
				traced = p.Tracer != nil
				return nil
			})
		}
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, flags.Endpoint != "", traced)
			continue
		}
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "password")
	}
}

func TestBuildOf(t *testing.T) {
	of := func(main string, settings ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "muniment", Version: main}}
		for i := 0; i < len(settings); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return info
	}
	for _, c := range []struct {
		name             string
		linked, revision string
		info             *debug.BuildInfo
		want             string
	}{
		{"of a tag", "", "", of("v1.2.0", "vcs.revision", "c9f006e", "vcs.modified", "false"), "v1.2.0 (revision c9f006e, go1.26.8)"},
		{"of a changed work tree", "", "", of("v1.2.1-0.20261121040000-c9f006e+dirty", "vcs.revision", "c9f006e", "vcs.modified", "true"),
			"v1.2.1-0.20261121040000-c9f006e+dirty (revision c9f006e-dirty, go1.26.8)"},
		{"as the linker sets it", "v1.2.0-3-gc9f006e", "", of("(devel)", "vcs.revision", "c9f006e"), "v1.2.0-3-gc9f006e (revision c9f006e, go1.26.8)"},
		{"without git", "", "", of("(devel)"), "devel (revision unknown, go1.26.8)"},
		{"without git, as the linker sets it", "v1.2.0", "", of(""), "v1.2.0 (revision unknown, go1.26.8)"},
		{"of a release", "v1.2.0", "c9f006e", of("(devel)"), "v1.2.0 (revision c9f006e, go1.26.8)"},
		{"of which nothing is known", "", "", nil, "devel (revision unknown, " + runtime.Version() + ")"},
	} {
		require.Equal(t, c.want, buildOf(c.linked, c.revision, c.info).String(), c.name)
	}
}
