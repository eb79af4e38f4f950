package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"muniment.example/gateway/certs"
)

// Server is the running server that an administrative command calls.
type Server struct {
	Data  string `default:"./muniment-data" env:"MUNIMENT_DATA" help:"Data folder of a running up or control process, which holds its admin token." type:"path"`
	Admin string `env:"MUNIMENT_ADMIN" address:"url" example:"127.0.0.1:9090" help:"Address of its admin listener, also as a URL; default: what the data folder says." placeholder:"HOST:PORT"`

	AdminTokenFile certs.PasswordFile `env:"-" help:"File of its admin token, for --admin without the data folder: the token is in admin.json there." placeholder:"FILE" type:"path" file:""`

	AdminCA   string `env:"MUNIMENT_ADMIN_CA" help:"Certificate authorities to trust as that server (PEM); default: the server's own certificate, which the data folder names." placeholder:"FILE" type:"path" file:"PEM"`
	AdminCert string `needs:"cert=key" env:"MUNIMENT_ADMIN_CERT" help:"Certificate to present to it (PEM)." placeholder:"FILE" type:"path" file:"PEM"`
	AdminKey  string `needs:"key=cert" env:"MUNIMENT_ADMIN_KEY" help:"Key of that certificate (PEM)." placeholder:"FILE" type:"path" file:"PEM"`
}

// Do calls the server's admin listener, and decodes the data of its response into out. The error is a sentence for
// the operator: what the server refuses, or why it can't be reached.
func (c *Server) Do(ctx context.Context, method, path string, in, out any) error {
	access, err := c.access()
	if err != nil {
		return err
	}
	over, err := c.trusted(access)
	if err != nil {
		return err
	}
	client := Client{API: access.URL, Key: access.Token, HTTP: over}
	err = client.Do(ctx, method, path, in, out)
	if _, unanswered := errors.AsType[*url.Error](err); !unanswered || ctx.Err() != nil {
		return sentence(err)
	}
	return fmt.Errorf("no answer from %s, which %s names: start the server, or say where it listens with --admin HOST:PORT, for example --admin 127.0.0.1:9090: %w", access.URL, cmp.Or(access.flag, filepath.Join(c.Data, File)), err)
}

// Base is the admin listener's URL. One that listens on every address is reached as localhost.
func (c *Server) Base() (string, error) {
	access, err := c.access()
	if err != nil {
		return "", err
	}
	at, err := url.Parse(access.URL)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", File, err)
	}
	if ip := net.ParseIP(at.Hostname()); ip != nil && ip.IsUnspecified() {
		at.Host = net.JoinHostPort("localhost", at.Port())
	}
	return at.String(), nil
}

// trusted is how to reach the server: nil without TLS.
func (c *Server) trusted(access Access) (*http.Client, error) {
	if !strings.HasPrefix(access.URL, "https://") {
		if c.AdminCA != "" || c.AdminCert != "" || c.AdminKey != "" {
			return nil, fmt.Errorf("%s is no address with TLS, so --admin-ca, --admin-cert and --admin-key are of no use: name it as --admin https://HOST:PORT, for example --admin https://127.0.0.1:9090, or leave them out", access.URL)
		}
		return nil, nil
	}
	var client *certs.Client
	var err error
	flags := certs.ClientFlags{TLS: true, CA: c.AdminCA, Cert: c.AdminCert, Key: c.AdminKey}
	if c.AdminCA == "" && access.Certificate != "" {
		client, err = certs.NewPinned(certs.Options{Use: "admin"}, flags, access.Certificate)
	} else {
		client, err = certs.NewClient(certs.Options{Use: "admin"}, flags)
	}
	if err != nil {
		return nil, err
	}
	return client.HTTP(), nil
}

// access is how to reach the server, and its token.
func (c *Server) access() (access Access, err error) {
	file := filepath.Join(c.Data, File)
	token := c.AdminTokenFile.Password()
	switch {
	case token != nil && c.Admin == "":
		return access, errors.New("--admin-token-file needs --admin, the address of the listener that the token opens, for example --admin 127.0.0.1:9090")
	case token != nil:
		if access.Token, err = token(); err != nil {
			return access, fmt.Errorf("--admin-token-file: %w", err)
		}
		access.URL = "http://"
		if c.AdminCA != "" || c.AdminCert != "" {
			access.URL = "https://"
		}
	default:
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			return access, fmt.Errorf("there is no %s, where a running server keeps its admin token: name the data folder of a running up or control process with --data, for example --data /var/lib/muniment-control; or the address of its admin listener with --admin HOST:PORT, and a file of its token with --admin-token-file", file)
		}
		if err == nil {
			err = json.Unmarshal(text, &access)
		}
		if err != nil {
			return access, fmt.Errorf("cannot read %s: %w", file, err)
		}
	}
	if c.Admin != "" {
		scheme, _, _ := strings.Cut(access.URL, "://")
		access.URL, access.flag = scheme+"://"+c.Admin, "--admin"
		if strings.Contains(c.Admin, "://") {
			access.URL = strings.TrimSuffix(c.Admin, "/")
		}
	}
	return access, nil
}
