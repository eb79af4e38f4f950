package stack

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/systemtest"
	"muniment.example/bench/waittest"
	"muniment.example/gateway/certs/certstest"
)

// The scaled service on engines that speak only TLS and require passwords: make
// test-stack-tls starts them and says where.

// secureEngines holds, for each engine, the flags that reach it.
type secureEngines struct{ kafka, clickhouse, database []string }

// secureStack names the engines, and databases of them; without one engine the test is
// skipped.
func secureStack(t *testing.T, clickhouse, database string) secureEngines {
	t.Helper()
	is := map[string]string{}
	for _, name := range []string{"CA", "KAFKA", "KAFKA_PASSWORD", "CLICKHOUSE", "CLICKHOUSE_PASSWORD", "POSTGRES", "POSTGRES_PASSWORD"} {
		if is[name] = os.Getenv("MUNIMENT_TEST_TLS_" + name); is[name] == "" {
			require.Empty(t, os.Getenv("MUNIMENT_TEST_TLS_CA"), "the stack is up, but MUNIMENT_TEST_TLS_%s is not set", name)
			t.Skip("needs engines with TLS and passwords: make test-stack-tls")
		}
	}
	at, err := url.Parse(is["POSTGRES"])
	require.NoError(t, err)
	at.Path = "/" + database
	return secureEngines{
		kafka: []string{"--kafka", is["KAFKA"], "--kafka-ca", is["CA"],
			"--kafka-sasl-mechanism", "scram-sha-512", "--kafka-sasl-user", "muniment", "--kafka-sasl-password-file", is["KAFKA_PASSWORD"]},
		clickhouse: []string{"--clickhouse", is["CLICKHOUSE"] + "/" + clickhouse, "--clickhouse-ca", is["CA"], "--clickhouse-password-file", is["CLICKHOUSE_PASSWORD"]},
		database:   []string{"--database", at.String(), "--database-ca", is["CA"], "--database-password-file", is["POSTGRES_PASSWORD"]},
	}
}

func (e secureEngines) all() []string { return slices.Concat(e.kafka, e.clickhouse, e.database) }

// TestStoryOverTLS runs the story of TestStoryOnTheStack again, with TLS and
// passwords on every hop: to the engines, between the processes, to their callers.
func TestStoryOverTLS(t *testing.T) {
	e := secureStack(t, "default", "postgres")
	parts := certstest.New(t)
	pair := parts.Issue(t, certstest.Leaf{})
	arg := append([]string{"demo", "--stack", "--deliveries", "6000", "--parts-cert", pair.Cert, "--parts-key", pair.Key, "--parts-ca", parts.File}, e.all()...)
	out := systemtest.Command(t, arg...)
	require.Contains(t, out, "ready on https://")
	require.Regexp(t, `metered \+ suppressed \+ duplicates +[\d,]+  =`, out)
}

// TestWrongCredentials: each command says what is wrong with a certificate, a name or a
// password, of each hop that it has. What can only end the command ends it; what may
// be repaired elsewhere is what /readyz shows.
func TestWrongCredentials(t *testing.T) {
	own := "muniment_" + strings.ToLower(rand.Text()[:12])
	e := secureStack(t, own, own)
	dir, stranger := t.TempDir(), certstest.New(t)
	wrong := filepath.Join(dir, "wrong.password")
	require.NoError(t, os.WriteFile(wrong, []byte("wrong\n"), 0o600))
	topic := []string{"--topic", own}
	// The stack's ClickHouse ends itself when it has refused a password, and is started
	// again: a connection meanwhile gets another error.
	says := func(want string, arg ...string) {
		var last strings.Builder
		waittest.Until(t, func() bool {
			out, err := exec.CommandContext(t.Context(), "muniment", arg...).CombinedOutput()
			last.Reset()
			last.Write(out)
			return (err == nil) == (want == "") && strings.Contains(last.String(), want)
		}, "%s\nis to say %q, and said last: %s", arg, want, &last)
	}
	migrate := slices.Concat([]string{"migrate", "--partitions", "1", "--replication", "1"}, topic)
	says("", append(migrate, e.all()...)...)

	const unknown, name = "certificate signed by unknown authority", "certificate is valid for localhost, not other.example"
	hops := []struct {
		engine     string
		flags      []string
		file       string
		refusal    string // of the password
		plain      string // the error of a client without flags: PostgreSQL's encrypts as it likes
		noPassword string // one without a password
	}{
		{"kafka", e.kafka, "--kafka-sasl-password-file", "SASL Authentication failed", "a broker hung up", "a broker hung up"},
		{"clickhouse", e.clickhouse, "--clickhouse-password-file", "Authentication failed", "cannot migrate ClickHouse", "Authentication failed"},
		{"database", e.database, "--database-password-file", "password authentication failed", "password authentication failed", "password authentication failed"},
	}
	for _, c := range hops {
		hop := slices.Concat(migrate, c.flags)
		says(unknown, append(hop, "--"+c.engine+"-ca", stranger.File)...)
		says(name, append(hop, "--"+c.engine+"-server-name", "other.example")...)
		says(c.refusal, append(hop, c.file, wrong)...)
		says("cannot read the password: open "+dir, append(hop, c.file, filepath.Join(dir, "none"))...)
		says(c.plain, slices.Concat(migrate, c.flags[:2])...)
		says(c.noPassword, slices.Concat(migrate, c.flags[:4])...)
	}
	says("--kafka-sasl-mechanism is missing", slices.Concat(migrate, e.kafka, []string{"--kafka-sasl-mechanism", ""})...)
	says("needs --kafka-sasl-user", slices.Concat(migrate, e.kafka, []string{"--kafka-sasl-user", ""})...)

	prints := func(want string, args ...string) {
		p := systemtest.Launch(t, args...)
		p.AwaitNote(t, want)
		p.Kill()
	}
	loader := slices.Concat([]string{"pipeline", "--admin", "127.0.0.1:0", "--from-all"}, topic, e.kafka, e.clickhouse)
	for _, c := range hops[:2] {
		prints(unknown, append(loader, "--"+c.engine+"-ca", stranger.File)...)
		prints(name, append(loader, "--"+c.engine+"-server-name", "other.example")...)
		prints(c.refusal, append(loader, c.file, wrong)...)
	}

	pair := stranger.Issue(t, certstest.Leaf{})
	data := filepath.Join(dir, "control")
	control := slices.Concat([]string{"control", "--data", data, "--listen", "127.0.0.1:0", "--nodes", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--tls-cert", pair.Cert, "--tls-key", pair.Key, "--nodes-tls-cert", pair.Cert, "--nodes-tls-key", pair.Key}, topic, e.all())
	for _, c := range hops {
		prints(unknown, append(control, "--"+c.engine+"-ca", stranger.File)...)
		prints(name, append(control, "--"+c.engine+"-server-name", "other.example")...)
		if c.engine == "database" {
			says(c.refusal, append(control, c.file, wrong)...)
		} else {
			prints(c.refusal, append(control, c.file, wrong)...)
		}
	}

	// A node on control that only clients with the right flags trust.
	p := systemtest.Launch(t, control...)
	p.AwaitReady(t, http.StatusOK)
	n := 0
	gateway := func(more ...string) []string {
		n++
		token := systemtest.Parse[struct{ Token string }](t, systemtest.Command(t, "node", "invite", "--data", data, "--json")).Token
		return slices.Concat([]string{"gateway", "--data", filepath.Join(dir, "gateway"+string(rune('a'+n))), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
			"--control", systemtest.HostPort(strings.Replace(p.Api, "https", "http", 1)), "--nodes", p.Nodes, "--invitation", token,
			"--control-ca", stranger.File, "--nodes-ca", stranger.File}, topic, e.kafka, more)
	}
	other := certstest.New(t).File
	prints(unknown, gateway("--nodes-ca", other)...)
	prints("not other.example", gateway("--nodes-server-name", "other.example")...)
	prints(unknown, gateway("--control-ca", other)...)
	prints("not other.example", gateway("--control-server-name", "other.example")...)
	prints(name, gateway("--kafka-server-name", "other.example")...)
	prints(hops[0].refusal, gateway(hops[0].file, wrong)...)
	says("--nodes must begin with https://", gateway("--nodes", strings.Replace(p.Nodes, "https", "http", 1))...)
	says("--tls-cert needs --tls-key", gateway("--tls-cert", pair.Cert)...)
}
