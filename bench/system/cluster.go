package system

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"muniment.example/pipeline"
)

// Engines are those that a scaled service stands on. What else its processes need to
// reach them, such as certificates and passwords, is in the environment.
type Engines struct {
	// Kafka is host:port of some brokers, with commas in between.
	Kafka string
	// ClickHouse and Database (PostgreSQL) are URLs. A Cluster puts databases of its own
	// into their paths.
	ClickHouse, Database string
	// Env holds variables that are set besides, as name=value.
	Env []string
}

// Certificates are files with which all parts of a Cluster speak TLS.
type Certificates struct {
	// Cert and Key are what each listener shows: good for 127.0.0.1.
	Cert, Key string
	// CA is the authority that the parts and their clients trust.
	CA string
}

func (c *Certificates) trust() (*tls.Config, error) {
	text, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", c.CA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}, nil
}

// env are the flags of all commands, as variables.
func (c *Certificates) env() (all []string) {
	for _, listener := range []string{"TLS", "NODES_TLS", "ADMIN_TLS"} {
		all = append(all, "MUNIMENT_"+listener+"_CERT="+c.Cert, "MUNIMENT_"+listener+"_KEY="+c.Key)
	}
	return append(all, "MUNIMENT_CONTROL_CA="+c.CA, "MUNIMENT_NODES_CA="+c.CA)
}

// Cluster is the scaled service as processes of this machine: gateways, loaders, and
// control behind a balancer. It stands on a topic and on two databases of its own, which
// it leaves to the engines. The parts may be killed and started again one by one; its
// methods are for one goroutine.
type Cluster struct {
	Exe     string
	Dir     string // existing; gets a folder and a log for each process
	Engines Engines
	// Topic, ClickHouse and Database are what it made for itself.
	Topic, ClickHouse, Database string

	// TLS of the parts; nil: they speak plain HTTP.
	TLS *Certificates
	// GatewayFlags, LoaderFlags and ControlFlags are further ones of every such process that is
	// started from then on.
	GatewayFlags, LoaderFlags, ControlFlags []string
	// Front is where all gateways forward requests to, and Doors where each of them gets
	// its rights: a balancer of its own. Both stand in front of Controls.
	Front *Balancer
	Doors []*Balancer
	// The parts, by their number. One that was killed stays, until it is started again.
	Controls, Loaders, Gateways []*Server

	Trusted *tls.Config // nil: plain HTTP
}

// Size is how many processes of each kind there are, and partitions of the topic.
type Size struct{ Gateways, Loaders, Controls, Partitions int }

// Raise makes topic and databases and starts everything. If that fails, End ends what
// runs already.
func (c *Cluster) Raise(ctx context.Context, size Size) (err error) {
	name := RandomName("muniment_")
	c.Topic = name
	if c.ClickHouse, err = AtDatabase(c.Engines.ClickHouse, name); err != nil {
		return err
	}
	if c.Database, err = AtDatabase(c.Engines.Database, name); err != nil {
		return err
	}
	if c.TLS != nil {
		if c.Trusted, err = c.TLS.trust(); err != nil {
			return err
		}
	}
	if err := c.Migrate(ctx, size.Partitions); err != nil {
		return err
	}
	for i := range size.Controls {
		c.Controls = append(c.Controls, nil)
		if err := c.StartControl(ctx, i); err != nil {
			return err
		}
	}
	var apis []string
	for _, p := range c.Controls {
		apis = append(apis, HostOf(p.API))
	}
	if c.Front, err = NewBalancer(apis...); err != nil {
		return err
	}
	for i := range size.Loaders {
		c.Loaders = append(c.Loaders, nil)
		if err := c.StartLoader(ctx, i); err != nil {
			return err
		}
	}
	for range size.Gateways {
		if err := c.AddGateway(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Migrate makes topic, database and warehouse, where they are missing.
func (c *Cluster) Migrate(ctx context.Context, partitions int) error {
	out, err := c.Command(ctx, "migrate", "--partitions", strconv.Itoa(partitions), "--replication", "1").CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot migrate: %w: %s", err, out)
	}
	return nil
}

// AddGateway starts one more gateway, with a door of its own.
func (c *Cluster) AddGateway(ctx context.Context) error {
	door, err := NewBalancer(c.ControlDoors()...)
	if err != nil {
		return err
	}
	c.Doors, c.Gateways = append(c.Doors, door), append(c.Gateways, nil)
	return c.StartGateway(ctx, len(c.Gateways)-1)
}

// CopyGateway starts one more gateway on a copy of another's folder, made while that one works.
func (c *Cluster) CopyGateway(ctx context.Context, of int) error {
	i := len(c.Gateways)
	if out, err := exec.CommandContext(ctx, "cp", "-a", c.Gateways[of].Data, c.dataOf("gateway", i)).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot copy a gateway's folder: %w: %s", err, out)
	}
	door, err := NewBalancer(c.ControlDoors()...)
	if err != nil {
		return err
	}
	c.Doors, c.Gateways = append(c.Doors, door), append(c.Gateways, &Server{API: anyPort, Admin: anyPort})
	if err := c.StartGateway(ctx, i); err != nil {
		c.Gateways = c.Gateways[:i]
		return err
	}
	return nil
}

// Operator is the server that administrative commands speak to.
func (c *Cluster) Operator() *Server { return c.Controls[0] }

// APIs are the base URLs of the gateways.
func (c *Cluster) APIs() (all []string) {
	for _, g := range c.Gateways {
		all = append(all, g.API)
	}
	return all
}

// ControlDoors are the addresses at which control listens for nodes.
func (c *Cluster) ControlDoors() (all []string) {
	for _, p := range c.Controls {
		all = append(all, HostOf(p.Nodes))
	}
	return all
}

// Root is the file of the root key.
func (c *Cluster) Root() string { return filepath.Join(c.Operator().Data, "keys", "root.vkey") }

// RandomName is a name that no database and no topic has yet.
func RandomName(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// AtDatabase is an engine's URL with another database in its path.
func AtDatabase(engine, name string) (string, error) {
	u, err := url.Parse(engine)
	if err != nil || u.Host == "" {
		return "", errors.New("an engine's address is no URL") // which may hold a password
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Command is a command of the service whose environment names the engines.
func (c *Cluster) Command(ctx context.Context, arg ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Exe, arg...)
	cmd.Env = append(append(os.Environ(), c.Engines.Env...), "MUNIMENT_KAFKA="+c.Engines.Kafka, "MUNIMENT_TOPIC="+c.Topic,
		"MUNIMENT_CLICKHOUSE="+c.ClickHouse, "MUNIMENT_DATABASE="+c.Database)
	if c.TLS != nil {
		cmd.Env = append(cmd.Env, c.TLS.env()...)
	}
	return cmd
}

// anyPort is where a part listens that was not started before.
const anyPort = "127.0.0.1:0"

// start starts a part, at the addresses of the one before it.
func (c *Cluster) start(ctx context.Context, verb string, i int, parts []*Server, listens []string, arg ...string) error {
	was := parts[i]
	if was == nil {
		was = &Server{API: anyPort, Admin: anyPort, Nodes: anyPort}
	}
	at := map[string]string{"listen": was.API, "admin": was.Admin, "nodes": was.Nodes}
	for _, name := range listens {
		address, err := withPort(HostOf(at[name]))
		if err != nil {
			return err
		}
		arg = append(arg, "--"+name, address)
	}
	client := http.DefaultClient
	if c.Trusted != nil {
		client = &http.Client{Transport: &http.Transport{TLSClientConfig: c.Trusted}}
	}
	started, err := startWith(ctx, c.Command(context.WithoutCancel(ctx), append([]string{verb}, arg...)...), filepath.Join(c.Dir, verb+strconv.Itoa(i+1)), client)
	if err != nil {
		return fmt.Errorf("cannot start %s %d: %w", verb, i+1, err)
	}
	started.Data, parts[i] = c.dataOf(verb, i), started
	return nil
}

// StartControl starts a control process, for the first time or again.
func (c *Cluster) StartControl(ctx context.Context, i int) error {
	return c.start(ctx, "control", i, c.Controls, []string{"listen", "nodes", "admin"}, append([]string{"--data", c.dataOf("control", i)}, c.ControlFlags...)...)
}

// StartLoader starts a loader, for the first time or again.
func (c *Cluster) StartLoader(ctx context.Context, i int) error {
	return c.start(ctx, "pipeline", i, c.Loaders, []string{"admin"}, c.LoaderFlags...)
}

// StartGateway starts a gateway, for the first time, when it is invited, or again.
func (c *Cluster) StartGateway(ctx context.Context, i int) error {
	data := c.dataOf("gateway", i)
	if err := os.WriteFile(data+tokenFile, []byte(rand.Text()), 0o600); err != nil {
		return err
	}
	arg := append([]string{"--data", data, "--admin-token-file", data + tokenFile, "--control", c.Front.Addr(), "--nodes", c.scheme() + c.Doors[i].Addr()}, c.GatewayFlags...)
	if c.Gateways[i] == nil {
		invitation, err := c.invite(ctx)
		if err != nil {
			return err
		}
		arg = append(arg, "--invitation", invitation)
	}
	return c.start(ctx, "gateway", i, c.Gateways, []string{"listen", "admin"}, arg...)
}

// scheme is how the parts' listeners are spoken to.
func (c *Cluster) scheme() string {
	if c.TLS == nil {
		return "http://"
	}
	return "https://"
}

// dataOf is a part's folder. All control processes have the same.
func (c *Cluster) dataOf(verb string, i int) string {
	if verb == "control" {
		return filepath.Join(c.Dir, verb)
	}
	return filepath.Join(c.Dir, verb+strconv.Itoa(i+1))
}

func (c *Cluster) invite(ctx context.Context) (token string, err error) {
	out, err := exec.CommandContext(ctx, c.Exe, "node", "invite", "--data", c.Operator().Data, "--json").Output()
	var invitation struct{ Token string }
	if err == nil {
		err = json.Unmarshal(out, &invitation)
	}
	if err != nil {
		return "", fmt.Errorf("cannot invite a gateway: %w%s", err, strings.TrimSpace(Stderr(err)))
	}
	return invitation.Token, nil
}

// Stop ends the gateways first, with SIGTERM, then the loaders, then control: each is
// there until the last of those that need it has gone.
func (c *Cluster) Stop() error {
	for _, parts := range [][]*Server{c.Gateways, c.Loaders, c.Controls} {
		for _, p := range parts {
			if err := p.Stop(); err != nil {
				return err
			}
		}
	}
	return nil
}

// End kills what still runs.
func (c *Cluster) End() {
	for _, parts := range [][]*Server{c.Gateways, c.Loaders, c.Controls} {
		for _, p := range parts {
			if p != nil {
				p.Kill()
			}
		}
	}
	for _, d := range append(c.Doors, c.Front) {
		if d != nil {
			_ = d.Close()
		}
	}
}

// Stack is where a Cluster can be raised.
type Stack struct {
	Engines Engines
	// TLS is that of the Cluster; nil: its parts speak plain HTTP.
	TLS *Certificates
	// OpenLog opens a topic for reading.
	OpenLog func(topic string) (ReadCloser, error)
}

// ReadCloser is a log that was opened for reading.
type ReadCloser interface {
	pipeline.Reader
	io.Closer
}
