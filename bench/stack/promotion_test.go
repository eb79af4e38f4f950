package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"muniment.example/bench/system"
	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/deploy/stack/stacktest"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/kafka"
)

// databaseServer is a PostgreSQL server of a test, at a socket in its folder.
type databaseServer struct {
	*testing.T
	dir string
	run *exec.Cmd
}

// command runs a program of PostgreSQL, as the user of the stack's server.
func (s *databaseServer) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(stacktest.Variable(s.T, "MUNIMENT_TEST_POSTGRES_BIN"), name), args...)
	if os.Geteuid() == 0 {
		as, err := user.Lookup("postgres")
		if err != nil {
			as, err = user.Lookup("nobody")
		}
		require.NoError(s, err)
		uid, err := strconv.Atoi(as.Uid)
		require.NoError(s, err)
		gid, err := strconv.Atoi(as.Gid)
		require.NoError(s, err)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	cmd.Dir = "/"
	return cmd
}

// start starts the server, which ends with the test.
func (s *databaseServer) start() {
	s.Helper()
	s.run = s.command("postgres", "-D", s.dir, "-c", "listen_addresses=", "-c", "unix_socket_directories="+s.dir, "-c", "fsync=off", "-c", "shared_buffers=16MB")
	require.NoError(s, s.run.Start())
	s.Cleanup(s.kill)
	waittest.Until(s, func() bool { return s.try("SELECT 1") == nil })
}

// kill ends the server's processes at once: those of its sessions end with the first.
func (s *databaseServer) kill() {
	_ = s.run.Process.Kill()
	_ = s.run.Wait()
}

func (s *databaseServer) try(statement string) error {
	ctx := s.Context()
	conn, err := pgx.Connect(ctx, "host="+s.dir+" user=postgres dbname=postgres")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// hold keeps everybody from changing a table, until release.
func (s *databaseServer) hold(table string) (release func()) {
	s.Helper()
	ctx := s.Context()
	conn, err := pgx.Connect(ctx, "host="+s.dir+" user=postgres dbname=muniment")
	require.NoError(s, err)
	_, err = conn.Exec(ctx, "BEGIN; LOCK TABLE "+table+" IN EXCLUSIVE MODE")
	require.NoError(s, err)
	return func() { require.NoError(s, conn.Close(ctx)) }
}

func (s *databaseServer) do(statements ...string) {
	s.Helper()
	for _, statement := range statements {
		require.NoError(s, s.try(statement), statement)
	}
}

// holds waits until a query returns a row.
func (s *databaseServer) holds(query string) {
	s.Helper()
	waittest.Until(s, func() bool { return s.try(`DO $$ BEGIN ASSERT EXISTS (`+query+`); END $$`) == nil }, query)
}

// replicated starts a server and its standby, which follows it asynchronously.
func replicated(t *testing.T) (primary, standby *databaseServer) {
	t.Helper()
	stacktest.Postgres(t)
	root, err := os.MkdirTemp("", "pg") // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() {
		waittest.Until(t, func() bool { return os.RemoveAll(root) == nil }, "the last processes have ended")
	})
	require.NoError(t, os.Chmod(root, 0o777))
	primary, standby = &databaseServer{T: t, dir: filepath.Join(root, "a")}, &databaseServer{T: t, dir: filepath.Join(root, "b")}
	out, err := primary.command("initdb", "-D", primary.dir, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync").CombinedOutput()
	require.NoError(t, err, "%s", out)
	copying := primary.command("postgres") // for its user
	copying.Path, copying.Args = "/bin/cp", []string{"cp", "-a", primary.dir, standby.dir}
	require.NoError(t, copying.Run())
	following := primary.command("postgres")
	following.Path, following.Args = "/bin/sh", []string{"sh", "-c", `touch "$0/standby.signal" && echo "primary_conninfo = 'host=$1 user=postgres application_name=standby'" >>"$0/postgresql.auto.conf"`, standby.dir, primary.dir}
	require.NoError(t, following.Run())
	primary.start()
	standby.start()
	primary.holds(`SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'`)
	return primary, standby
}

// failover is a control process and two gateways on a database with a standby.
type failover struct {
	*onRecord
	primary, standby *databaseServer
	scaled           *systemtest.Scaled
	control          *systemtest.Launched
	front            *system.Balancer // of control's API
	doors            []*system.Balancer
	gateways         []*systemtest.Launched
	starts           [][]string // what starts each gateway
	addrs            []string

	mu       sync.Mutex
	answered []time.Time // receipts of the first gateway, on a right that is never stopped
}

// promotionBound is that of the nodes.
const promotionBound = 8 * time.Second

func newFailover(t *testing.T) *failover {
	f := &failover{onRecord: &onRecord{T: t, receipts: map[onGateway]int{}, stale: map[string]int{}}}
	f.primary, f.standby = replicated(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	f.scaled = &systemtest.Scaled{
		Data: filepath.Join(t.TempDir(), "data"), Kafka: cluster.ListenAddrs()[0], Topic: kafka.DefaultTopic, Clickhouse: "clickhouse://127.0.0.1:1/muniment",
		Database: fmt.Sprintf("postgres://postgres@/muniment?host=%s,%s&port=5432,5432&target_session_attrs=read-write&lock_timeout=0", f.primary.dir, f.standby.dir),
	}
	f.scaled.Migrate(t)
	waiting := systemtest.Launch(t, f.controlOn(f.standby)...)
	waiting.AwaitNote(t, "the server is a standby")
	waiting.Kill()
	balancer := func() *system.Balancer {
		b, err := system.NewBalancer()
		require.NoError(t, err)
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	f.front, f.doors = balancer(), []*system.Balancer{balancer(), balancer()}
	f.startControl(f.doors...)
	f.client = system.Client{API: f.control.Api, Key: systemtest.CreateTenant(t, f.scaled.Data).APIKey}
	for _, door := range f.doors {
		data := t.TempDir()
		p := systemtest.Launch(t, f.gateway(data, "127.0.0.1:0", door, "--invitation", f.control.Invite(t, f.scaled))...)
		p.AwaitReady(t, http.StatusOK)
		f.gateways, f.addrs = append(f.gateways, p), append(f.addrs, systemtest.HostPort(p.Api))
		f.starts = append(f.starts, f.gateway(data, systemtest.HostPort(p.Api), door))
	}
	return f
}

func (f *failover) gateway(data, listen string, door *system.Balancer, more ...string) []string {
	return append([]string{"gateway", "--kafka", f.scaled.Kafka, "--topic", f.scaled.Topic, "--data", data, "--listen", listen, "--admin", "127.0.0.1:0",
		"--control", f.front.Addr(), "--nodes", "http://" + door.Addr(), "--bound", promotionBound.String()}, more...)
}

// startOn returns what control says when it refuses to start on one server alone.
func (f *failover) startOn(server *databaseServer) (said string) {
	f.Helper()
	return systemtest.Fails(f.T, f.controlOn(server)...)
}

func (f *failover) controlOn(server *databaseServer) []string {
	return []string{"control", "--database", "postgres://postgres@/muniment?host=" + server.dir, "--kafka", f.scaled.Kafka, "--topic", f.scaled.Topic,
		"--clickhouse", f.scaled.Clickhouse, "--data", f.scaled.Data, "--listen", "127.0.0.1:0", "--nodes", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
}

// startControl starts control, and opens doors of nodes to it.
func (f *failover) startControl(doors ...*system.Balancer) {
	f.Helper()
	f.launchControl(doors...)
	f.control.AwaitReady(f.T, http.StatusOK)
}

// launchControl is startControl, but returns before control is ready.
func (f *failover) launchControl(doors ...*system.Balancer) {
	f.Helper()
	f.control = f.scaled.Launch(f.T)
	f.front.Set(systemtest.HostPort(f.control.Api))
	for _, door := range doors {
		door.Set(systemtest.HostPort(f.control.Nodes))
	}
	f.client.API = f.control.Api
}

// load delivers on rights at both gateways until the test ends.
func (f *failover) load(kept string, rights ...string) (stop func()) {
	ctx, cancel := context.WithCancel(f.Context())
	var running sync.WaitGroup
	for i, addr := range f.addrs {
		for _, right := range append(rights, kept) {
			running.Go(func() {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for ; ctx.Err() == nil; <-tick.C {
					if f.deliver(addr, right) == http.StatusOK && i == 0 && right == kept {
						f.mu.Lock()
						f.answered = append(f.answered, time.Now())
						f.mu.Unlock()
					}
				}
			})
		}
	}
	return sync.OnceFunc(func() { cancel(); running.Wait() })
}

// longest is the longest time after a moment without a receipt of the first gateway.
func (f *failover) longest(after time.Time) (longest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, at := range f.answered[1:] {
		if before := f.answered[i]; at.After(after) {
			longest = max(longest, at.Sub(before))
		}
	}
	return longest
}

// read returns what is answered about a right; 0 without an answer.
func (f *failover) read(rightID string) (status int, reason string) {
	status, said := f.answer(rightID)
	reason, _ = said["reason"].(string)
	return status, reason
}

// answer is read with the whole body, but for the request's own id.
func (f *failover) answer(rightID string) (status int, said map[string]any) {
	status, text, err := system.Client{API: "http://" + f.addrs[0], Key: f.client.Key}.Request(f.Context(), http.MethodGet, "/v1/rights/"+rightID, nil)
	if err != nil || json.Unmarshal(text, &said) != nil {
		return 0, nil
	}
	delete(said, "requestId")
	return status, said
}

// fail kills the primary and promotes the standby.
func (f *failover) fail() (at time.Time) {
	f.Helper()
	at = time.Now()
	f.primary.kill()
	f.standby.do("SELECT pg_promote()")
	return at
}

// requireComplete requires that every receipt that was answered is in the log, and no two are the same.
func (f *failover) requireComplete() {
	f.Helper()
	ids := slices.Clone(f.ids)
	slices.Sort(ids)
	require.Len(f, slices.Compact(ids), len(f.ids), "a receipt was given twice")
	c := &system.Cluster{Engines: system.Engines{Kafka: f.scaled.Kafka}, Topic: f.scaled.Topic}
	inLog := func() int { // a spool may still be draining
		stand, n := systemtest.InTopic(f.T, c), 0
		for _, id := range f.ids {
			if _, ok := stand[id]; ok {
				n++
			}
		}
		return n
	}
	waittest.Until(f, func() bool { return inLog() == len(f.ids) }, "all that was answered is in the log")
}

// TestPromotionOnTheStack kills a database's server that its standby follows asynchronously, after
// a revocation was acknowledged that the standby did not get, and promotes the standby. Nobody but
// supervisors, which start what has ended, does anything: the revocation holds, unknown ids are 503 until
// the log was read and 404 from then on, and no receipt is lost, given twice, or later than the bound.
func TestPromotionOnTheStack(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	rights := make([]string, 2)
	for i := range rights {
		rights[i] = systemtest.IssueRights(t, f.client)["DOOH"]
	}
	kept, revoked := rights[0], rights[1]
	stop := f.load(kept, revoked)
	defer stop()
	for _, addr := range f.addrs {
		f.more(50, addr, kept)
		f.more(10, addr, revoked)
	}
	f.standby.do(`ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`)
	f.standby.holds(`SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pg_stat_wal_receiver)`)
	lost := systemtest.IssueRights(t, f.client)["DOOH"]
	f.more(10, f.addrs[0], kept)
	f.doors[1].Set() // the second gateway can't learn of the revocation
	require.False(t, f.change(revoked, "revoke", api.RightRevoked))
	status, _ := f.read(lost)
	require.Equal(t, http.StatusOK, status)

	failed := f.fail()
	unknown := make(chan time.Time, 1) // when the right that the standby lacks was first 404
	go func() {
		for {
			switch status, reason := f.read(lost); {
			case status == http.StatusNotFound:
				unknown <- time.Now()
				return
			case status == http.StatusServiceUnavailable && reason == "":
				t.Errorf("503 without a reason")
			case status == http.StatusOK:
				t.Errorf("the right that was lost is read")
			}
		}
	}()
	require.Error(t, f.control.Ended())
	require.Contains(t, f.control.Log(), "on another server, such as a standby that was promoted")
	release := f.standby.hold("rights") // nothing can be re-applied
	f.launchControl(f.doors[0])
	f.control.AwaitNote(t, "it is being compared with the log")
	for range 5 {
		status, known := f.answer(kept)
		require.Equal(t, http.StatusServiceUnavailable, status)
		status, said := f.answer(lost)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, known, said, "nobody can tell which of them exists")
	}
	released := time.Now()
	release()
	f.control.AwaitReady(t, http.StatusOK)
	require.Contains(t, f.control.Log(), "continued on a database server that was promoted")
	require.Contains(t, f.control.Log(), "it was re-applied")
	require.False(t, (<-unknown).Before(released), "404 before the log was read")
	for i := range f.gateways {
		if i == 1 {
			f.until("the bound is over", func() bool { return f.refused(f.addrs[1]) > 0 })
			f.doors[1].Set(systemtest.HostPort(f.control.Nodes))
		}
		require.Error(t, f.gateways[i].Ended())
		require.Contains(t, f.gateways[i].Log(), "was restored or its standby promoted")
		f.gateways[i] = systemtest.Launch(t, f.starts[i]...)
		f.gateways[i].AwaitReady(t, http.StatusOK)
		f.more(50, f.addrs[i], kept)
		f.until("it knows of the revocation", func() bool { return f.deliver(f.addrs[i], revoked) == http.StatusConflict })
	}
	stopped := f.longest(failed)
	status, _ = f.read(lost)
	require.Equal(t, http.StatusNotFound, status)
	stop()
	operations, behind, err := f.history.Check(promotionBound)
	require.NoError(t, err)
	f.requireComplete()
	f.primary.start()
	require.Contains(t, f.startOn(f.primary), "the database is older than the log", "the old primary")
	t.Logf("asynchronous: deliveries stopped for %v; %d receipts, %d of them within the bound after the revocation was acknowledged, 0 later; %d operations linearizable",
		stopped.Round(10*time.Millisecond), len(f.ids), behind, operations)
}

// TestSynchronousPromotionOnTheStack does the same where the standby had all that was acknowledged: no
// node has to start again, and deliveries go on.
func TestSynchronousPromotionOnTheStack(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	f.primary.do(`ALTER SYSTEM SET synchronous_standby_names = 'standby'`, `SELECT pg_reload_conf()`)
	f.primary.holds(`SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'`)
	kept, revoked := systemtest.IssueRights(t, f.client)["DOOH"], systemtest.IssueRights(t, f.client)["DOOH"]
	stop := f.load(kept, revoked)
	defer stop()
	for _, addr := range f.addrs {
		f.more(50, addr, kept)
		f.more(10, addr, revoked)
	}
	f.change(revoked, "revoke", api.RightRevoked)
	failed := f.fail()
	require.Error(t, f.control.Ended())
	f.startControl(f.doors...)
	for i, addr := range f.addrs {
		f.until("it follows the feed again", func() bool {
			r := systemtest.IssueRights(t, f.client)["DOOH"]
			return f.deliver(addr, r) == http.StatusOK
		})
		f.more(50, addr, kept)
		require.Contains(t, f.control.Log(), "the log holds no events of control that it does not know")
		status, text := f.gateways[i].Ready()
		require.Equal(t, http.StatusOK, status, "the process that was there before: %s", text)
	}
	stopped := f.longest(failed)
	stop()
	_, _, err := f.history.Check(promotionBound)
	require.NoError(t, err)
	f.requireComplete()
	t.Logf("synchronous: deliveries stopped for %v; %d receipts", stopped.Round(10*time.Millisecond), len(f.ids))
}
