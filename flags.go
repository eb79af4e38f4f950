package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/mailer"
	"muniment.example/control/webhook"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs"
	"muniment.example/pipeline/trace"
)

// serverFlags are those of every command that serves.
type serverFlags struct {
	Log      string     `default:"text" enum:"text,json" help:"Form of the log: ${enum}."`
	LogLevel slog.Level `default:"info" help:"Lowest level that is logged: debug, info, warn or error."`

	Traces tracesFlags `embed:"" prefix:"traces-" group:"Traces:"`
}

// logger writes to standard error; a server's first line names its addresses. The level may change while the
// process runs.
func (f *serverFlags) logger() (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(f.LogLevel)
	options := &slog.HandlerOptions{Level: level}
	if f.Log == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options)), level
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options)), level
}

// tracesFlags say where traces go, and which requests are traced.
type tracesFlags struct {
	Endpoint string  `help:"URL of a collector that takes OTLP over HTTP in JSON, as http://127.0.0.1:4318, to which /v1/traces is added. Default: nothing is traced." placeholder:"URL"`
	Sample   float64 `default:"0.01" least:"0" most:"1" help:"Part of the requests that are traced, ${default} by default, besides those of which the caller says that its trace is sampled, of these at most 100 a second." placeholder:"RATIO"`
	CA       string  `name:"ca" help:"Certificate authorities to trust as the collector (PEM); default: those of the system." placeholder:"FILE" type:"path"`
}

// open begins to export what p traces, until everything else of p has ended.
func (f tracesFlags) open(p *process) error {
	switch {
	case f.CA != "" && !strings.HasPrefix(f.Endpoint, "https://"):
		return errors.New("--traces-ca needs a --traces-endpoint that begins with https://")
	case f.Endpoint == "":
		return nil
	}
	if err := trace.CheckEndpoint(f.Endpoint); err != nil {
		return fmt.Errorf("--traces-endpoint %w", err)
	}
	hop, err := certs.NewClient(p.certs("traces"), certs.ClientFlags{CA: f.CA})
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // it is only shown
	p.tracer, err = trace.New(trace.Config{
		Endpoint: f.Endpoint, Sample: f.Sample, Service: strings.ReplaceAll(p.name, " ", "-"), Version: thisBuild().Version, Host: host,
		Client: hop.HTTP(), Logger: p.logger, Registerer: p.registry,
	})
	if err == nil {
		p.parts().run("the export of traces", p.tracer.Run)
	}
	return err
}

// keysFlags are those of every process that answers deliveries.
type keysFlags struct {
	IdempotencyEntries int `default:"5000000" least:"1" help:"How many idempotency keys and rows of batches are remembered, the newest of 24h, in 50 to 80 bytes of memory each and 24 on the disk: ${default} last for 24h at 58 deliveries a second with a key, for 83 minutes at 1,000." placeholder:"N"`
	rowFlags
}

// rowFlags are those of every process that decides on rows of batches.
type rowFlags struct {
	RowAge time.Duration `default:"720h" least:"1s" most:"720h" help:"Highest age of the play of a row of a batch, at most ${default}: the same for all gateways and control processes."`
}

// checkpointFolder is where a data folder keeps checkpoints of its idempotency keys.
const checkpointFolder = "idempotency"

// profilingFlags are those of a process that makes no admin token of its own.
type profilingFlags struct {
	AdminTokenFile certs.PasswordFile `help:"File of a token that opens /debug/pprof on the address for operators, as Authorization: Bearer TOKEN. Default: it is closed." placeholder:"FILE" type:"path"`
}

// token reads the file; it is empty where there is none.
func (f *profilingFlags) token() (string, error) {
	read := f.AdminTokenFile.Password()
	if read == nil {
		return "", nil
	}
	token, err := read()
	if err != nil {
		return "", fmt.Errorf("--admin-token-file: %w", err)
	}
	return token, nil
}

// exportFlags say where the bundles of DSAR jobs are kept, and for how long.
type exportFlags struct {
	Bundles    string        `help:"Where bundles of exports are kept: a folder, or the URL of a bucket, as s3://NAME?region=REGION, which all control processes share; default: the folder bundles of --data." placeholder:"PLACE"`
	BundleKeep time.Duration `default:"168h" least:"1s" help:"How long a bundle is kept."`
}

// sealFlags configure when tenants are sealed automatically.
type sealFlags struct {
	SealEvery time.Duration `default:"1h" least:"0s" help:"How old an event may be before its tenant is sealed automatically; 0 is never. Not those of the sandbox's visitors."`
	SealAt    int           `default:"100000" least:"0" help:"How many unsealed events a tenant may have before it is sealed automatically; 0 is any number." placeholder:"N"`
}

// webhookFlags say where webhooks may lead.
type webhookFlags struct {
	Allow []string `help:"Ranges of addresses, as 10.0.0.0/8, and names of hosts that webhooks may lead to besides the public internet, at any port, and to a loopback address also by http://; for development, and for receivers of your own. May be repeated." placeholder:"CIDR|HOST"`
}

// Validate refuses what is neither.
func (f webhookFlags) Validate() error {
	if _, err := webhook.NewEgress(f.Allow); err != nil {
		return fmt.Errorf("--webhook-allow: %w", err)
	}
	return nil
}

// publicURLFlag says where callers reach the API.
type publicURLFlag struct {
	PublicURL string `help:"URL under which callers reach the API and the console, for links in mails; without https, the console opens only on the machine of the service; default: the address of --listen." placeholder:"URL"`
}

// Validate refuses what no link can begin with.
func (f publicURLFlag) Validate() error {
	if f.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(f.PublicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !api.Printable(f.PublicURL, 512) {
		return errors.New("--public-url must begin with http:// or https://, and have a host, no user, no query and no fragment")
	}
	return nil
}

// publicURL is the URL without a slash at its end. listening is where this process listens.
func (f publicURLFlag) publicURL(listening string) string {
	return strings.TrimRight(cmp.Or(f.PublicURL, listening), "/")
}

// mailFlags say by which mail server mails are sent.
type mailFlags struct {
	SMTP         string             `name:"smtp" help:"Mail server that takes mails by SMTP; default: mails are written to files in the folder outbox of --data." placeholder:"HOST:PORT"`
	From         string             `help:"Sender of mails." placeholder:"ADDRESS"`
	User         string             `help:"User to authenticate as to the mail server." placeholder:"NAME"`
	PasswordFile certs.PasswordFile `help:"File of that user's password. Read again for each mail." placeholder:"FILE" type:"path"`
	TLS          mailer.TLSMode     `name:"tls" default:"starttls" enum:"starttls,implicit,none" help:"TLS with the mail server: starttls (a server without it is refused), implicit (from the first byte, as on port 465), or none."`
	TLSCA        string             `name:"tls-ca" help:"Certificate authorities to trust as the mail server (PEM); default: those of the system." placeholder:"FILE" type:"path"`
}

// reachable refuses mails whose link would lead to where this process listens.
func (f mailFlags) reachable(public publicURLFlag) error {
	if f.SMTP != "" && public.PublicURL == "" {
		return errors.New("--mail-smtp needs --public-url: the link of a mail begins with it")
	}
	return nil
}

// Validate refuses what would fail only once a mail is sent.
func (f mailFlags) Validate() error {
	if f.SMTP == "" {
		if f.From != "" || f.User != "" || f.PasswordFile != "" || f.TLSCA != "" {
			return errors.New("--mail-smtp is missing")
		}
		return nil
	}
	if host, port, err := net.SplitHostPort(f.SMTP); err != nil || host == "" || port == "" {
		return errors.New("--mail-smtp must be host:port")
	}
	if err := mailer.CheckSender(f.From); err != nil {
		return fmt.Errorf("--mail-from %w", err)
	}
	switch {
	case (f.User == "") != (f.PasswordFile == ""):
		return errors.New("--mail-user and --mail-password-file need each other")
	case f.User != "" && f.TLS == mailer.NoTLS:
		return errors.New("--mail-user needs --mail-tls starttls or implicit: the password would travel in clear")
	case f.TLSCA != "" && f.TLS == mailer.NoTLS:
		return errors.New("--mail-tls-ca needs --mail-tls starttls or implicit")
	}
	return nil
}

// server is the mail server; nil if there is none.
func (f mailFlags) server(logger *slog.Logger, registry prometheus.Registerer) (*mailer.Server, error) {
	if f.SMTP == "" {
		return nil, nil
	}
	s := &mailer.Server{Address: f.SMTP, From: f.From, User: f.User, Password: f.PasswordFile.Password(), TLS: f.TLS}
	hop, err := certs.NewClient(certs.Options{Use: "mail", Logger: logger, Registerer: registry}, certs.ClientFlags{CA: f.TLSCA})
	if err != nil {
		return nil, err
	}
	s.Trust = func(host string) *tls.Config {
		trust := cmp.Or(hop.Config(host), &tls.Config{ServerName: host})
		trust.MinVersion = tls.VersionTLS12 // many mail servers have no later one
		return trust
	}
	return s, nil
}
