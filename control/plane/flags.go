package plane

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/mailer"
	"muniment.example/control/member"
	"muniment.example/control/objects"
	"muniment.example/control/oidc"
	"muniment.example/control/sandbox"
	"muniment.example/control/webhook"
	"muniment.example/gateway/api"
	"muniment.example/gateway/certs"
)

// Flags are those of every command that runs the control plane.
type Flags struct {
	Sandbox sandbox.Flags `embed:"" prefix:"sandbox-" group:"Sandbox:"`
	Seal    SealFlags     `embed:"" group:"Sealing:"`
	Webhook WebhookFlags  `embed:"" prefix:"webhook-" group:"Webhooks:"`
	Exports ExportFlags   `embed:"" group:"Exports:"`
	Mail    MailFlags     `embed:"" prefix:"mail-" group:"Mail:"`
	OIDC    OIDCFlags     `embed:"" prefix:"oidc-" group:"OpenID Connect:"`
	Public  PublicURLFlag `embed:""`
}

// Validate refuses mails whose link would lead to where the process listens, and a provider that would send browsers
// there.
func (f Flags) Validate() error {
	switch {
	case f.Mail.SMTP != "" && f.Public.PublicURL == "":
		return errors.New("--mail-smtp needs --public-url: the link of a mail begins with it")
	case f.OIDC.Issuer != "" && f.Public.PublicURL == "":
		return errors.New("--oidc-issuer needs --public-url: the provider sends browsers back to it")
	}
	return nil
}

// publicURL is where callers reach the API, without a slash at its end. listening is where the process listens.
func (f Flags) publicURL(listening string) string {
	return strings.TrimRight(cmp.Or(f.Public.PublicURL, listening), "/")
}

// ExportFlags say where the bundles of DSAR jobs are kept, and for how long.
type ExportFlags struct {
	Bundles    string        `help:"Where bundles of exports are kept: a folder, or the URL of a bucket, as s3://NAME?region=REGION, which all control processes share; default: the folder bundles of --data." placeholder:"PLACE"`
	BundleKeep time.Duration `default:"168h" least:"1s" help:"How long a bundle is kept."`
}

// Validate refuses the URL of no bucket.
func (f ExportFlags) Validate() error {
	if err := objects.Check(f.Bundles); err != nil {
		return fmt.Errorf("--bundles: %w; it must be a folder or the URL of a bucket, for example 's3://muniment-bundles?region=eu-central-1'", err)
	}
	return nil
}

// SealFlags configure when tenants are sealed automatically.
type SealFlags struct {
	SealEvery time.Duration `default:"1h" least:"100ms" zero:"" help:"How old an event may be before its tenant is sealed automatically; 0 is never. Not those of the sandbox's visitors."`
	SealAt    int           `default:"100000" least:"0" help:"How many unsealed events a tenant may have before it is sealed automatically; 0 is any number." placeholder:"N"`
}

// WebhookFlags say where webhooks may lead.
type WebhookFlags struct {
	Allow []string `help:"Ranges of addresses, as 10.0.0.0/8, and names of hosts that webhooks may lead to besides the public internet, at any port, and to a loopback address also by http://; for development, and for receivers of your own. May be repeated." placeholder:"CIDR|HOST"`
}

// Validate refuses what is neither.
func (f WebhookFlags) Validate() error {
	if _, err := webhook.NewEgress(f.Allow); err != nil {
		return fmt.Errorf("--webhook-allow: %w; it must be one of these, for example 10.0.0.0/8 or receiver.internal", err)
	}
	return nil
}

// PublicURLFlag says where callers reach the API.
type PublicURLFlag struct {
	PublicURL string `url:"https http" example:"https://evidence.example.com" help:"URL under which callers reach the API and the console, for links in mails; without https, the console opens only on the machine of the service; default: the address of --listen." placeholder:"URL"`
}

// Validate refuses what no link can begin with.
func (f PublicURLFlag) Validate() error {
	if f.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(f.PublicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !api.Printable(f.PublicURL, 512) {
		return errors.New("--public-url must begin with http:// or https://, and have a host, no user, no query and no fragment, for example https://evidence.example.com")
	}
	return nil
}

// OIDCFlags say by which provider of OpenID Connect members may sign in to the console.
type OIDCFlags struct {
	Issuer     string             `url:"https http" example:"https://login.example.com" help:"Provider of OpenID Connect by which members may sign in to the console too: its issuer, exactly as its tokens name it. It is trusted for the addresses that it has verified, of all tenants. It sends browsers back to /console/sign-in/callback of --public-url. Default: members sign in by mailed links." placeholder:"URL"`
	ClientID   string             `help:"Id of this service at the provider." placeholder:"ID"`
	SecretFile certs.PasswordFile `help:"File of its secret there. Read again for each sign-in. Default: it is a public client, which has none." placeholder:"FILE" type:"path" file:""`
	CA         string             `name:"ca" help:"Certificate authorities to trust as the provider (PEM); default: those of the system." placeholder:"FILE" type:"path" file:"PEM"`
}

// Validate refuses what would fail only once somebody signs in.
func (f OIDCFlags) Validate() error {
	if f.Issuer == "" {
		if f.ClientID != "" || f.SecretFile != "" || f.CA != "" {
			return errors.New("--oidc-issuer is missing, for example --oidc-issuer https://login.example.com")
		}
		return nil
	}
	if err := oidc.CheckIssuer(f.Issuer); err != nil {
		return fmt.Errorf("--oidc-issuer %w, for example https://login.example.com", err)
	}
	if f.ClientID == "" {
		return errors.New("--oidc-client-id is missing: the id under which the provider knows this service")
	}
	return nil
}

// provider is the provider; nil if there is none. public is where browsers reach the console.
func (f OIDCFlags) provider(public string, logger *slog.Logger, registry prometheus.Registerer) (*oidc.Provider, error) {
	if f.Issuer == "" {
		return nil, nil
	}
	hop, err := certs.NewClient(certs.Options{Use: "oidc", Logger: logger, Registerer: registry}, certs.ClientFlags{CA: f.CA})
	if err != nil {
		return nil, err
	}
	return oidc.New(oidc.Config{
		Issuer: f.Issuer, ClientID: f.ClientID, Secret: f.SecretFile.Password(), RedirectURL: public + member.CallbackPath, Logger: logger,
		Trust: func(host string) *tls.Config {
			trust := cmp.Or(hop.Config(host), &tls.Config{ServerName: host})
			trust.MinVersion = tls.VersionTLS12 // some providers have no later one
			return trust
		},
	})
}

// MailFlags say by which mail server mails are sent.
type MailFlags struct {
	SMTP         string             `name:"smtp" address:"host" example:"smtp.example.com:587" help:"Mail server that takes mails by SMTP; default: mails are written to files in the folder outbox of --data." placeholder:"HOST:PORT"`
	From         string             `help:"Sender of mails." placeholder:"ADDRESS"`
	User         string             `help:"User to authenticate as to the mail server." placeholder:"NAME"`
	PasswordFile certs.PasswordFile `help:"File of that user's password. Read again for each mail." placeholder:"FILE" type:"path" file:""`
	TLS          mailer.TLSMode     `name:"tls" default:"starttls" enum:"starttls,implicit,none" help:"TLS with the mail server: starttls (a server without it is refused), implicit (from the first byte, as on port 465), or none."`
	TLSCA        string             `name:"tls-ca" help:"Certificate authorities to trust as the mail server (PEM); default: those of the system." placeholder:"FILE" type:"path" file:"PEM"`
}

// Validate refuses what would fail only once a mail is sent.
func (f MailFlags) Validate() error {
	if f.SMTP == "" {
		if f.From != "" || f.User != "" || f.PasswordFile != "" || f.TLSCA != "" {
			return errors.New("--mail-smtp is missing, for example --mail-smtp smtp.example.com:587")
		}
		return nil
	}
	if err := mailer.CheckSender(f.From); err != nil {
		return fmt.Errorf("--mail-from %w", err)
	}
	switch {
	case (f.User == "") != (f.PasswordFile == ""):
		return errors.New("--mail-user and --mail-password-file need each other, for example --mail-user evidence --mail-password-file mail.password")
	case f.User != "" && f.TLS == mailer.NoTLS:
		return errors.New("--mail-user needs --mail-tls starttls or implicit: the password would travel in clear")
	case f.TLSCA != "" && f.TLS == mailer.NoTLS:
		return errors.New("--mail-tls-ca needs --mail-tls starttls or implicit")
	}
	return nil
}

// server is the mail server; nil if there is none.
func (f MailFlags) server(logger *slog.Logger, registry prometheus.Registerer) (*mailer.Server, error) {
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
