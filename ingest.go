package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muniment.example/deploy/process"
	"muniment.example/gateway/certs"
	"muniment.example/gateway/upload"
)

// apiKey names the variable that holds the API key: as a flag it would be visible to every user
// of the machine who lists processes.
const apiKey = "MUNIMENT_API_KEY"

type ingestCmd struct {
	Files []string `arg:"" name:"file" help:"Files of plays, or folders of such files: NDJSON, CSV or JSON, also packed by gzip or zstd."`

	URL     string `default:"http://127.0.0.1:8080" url:"http https" env:"MUNIMENT_URL" help:"The service. Its API key, with the scope delivery:write, is read from MUNIMENT_API_KEY or --key-file."`
	KeyFile string `env:"MUNIMENT_API_KEY_FILE" help:"File that holds the API key." placeholder:"FILE" type:"path" file:""`
	CA      string `help:"Certificate authorities to trust as the service (PEM); default: those of the system." placeholder:"FILE" type:"path" file:"PEM"`

	Format string            `help:"What the files hold: ndjson, json, csv, or a format that ingest-batch takes; default: what their names say."`
	Option map[string]string `help:"A parameter of the format, such as --option tz=Europe/Berlin or --option column.playedAt=start." placeholder:"NAME=VALUE" mapsep:"none"`

	Results     string        `help:"Folder for the results files, a line for each row; default: beside each file, as FILE.results.ndjson." placeholder:"DIR" type:"path"`
	Rejected    bool          `help:"Send nothing: list the rows of the files that were rejected, and why."`
	Finish      bool          `help:"Send sessions (vast, omsdk) that are not finished, too: no later log goes on with them."`
	Again       bool          `help:"Send rows again that were rejected."`
	Concurrency int           `default:"4" least:"1" most:"64" help:"How many batches are sent at once."`
	RetryFor    time.Duration `default:"15m" least:"1ms" help:"How long to retry a batch that the service can't accept."`
	JSON        bool          `help:"Show progress as JSON objects, one a line; the last one has done: true."`
}

// Help is shown with the help of the flags.
func (c *ingestCmd) Help() string {
	return "An interrupted run continues from the results file: run the same command again. A row that is sent twice counts once. " +
		"Files may be of any length. Sessions that go on in the next log are kept beside the results until it is sent."
}

// Run uploads. It fails unless every row was accepted.
func (c *ingestCmd) Run() error {
	if c.Rejected {
		return upload.Rejected(upload.Config{Format: c.Format, Results: c.Results}, c.Files, func(r upload.Rejection) error {
			_, err := fmt.Println(r)
			return err
		})
	}
	ctx, stop := process.Interrupted()
	defer stop()
	key, err := apiKeyOf(c.KeyFile)
	if err != nil {
		return err
	}
	over, err := transportTo(c.CA, c.Concurrency)
	if err != nil {
		return err
	}
	options := url.Values{}
	for name, value := range c.Option {
		options.Set(name, value)
	}
	progress := new(upload.Progress)
	u, err := upload.New(upload.Config{
		URL: c.URL, Key: key, HTTP: over, Format: c.Format, Options: options, Results: c.Results, Again: c.Again, Finish: c.Finish,
		Senders: c.Concurrency, RetryFor: c.RetryFor, Progress: progress,
	})
	if err != nil {
		return err
	}
	out, columns := os.Stderr, 0
	if c.JSON {
		out = os.Stdout
	} else if size, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ); err == nil { // it is a terminal
		columns = cmp.Or(int(size.Col), 80)
	}
	printer := upload.StartPrinter(out, progress, columns, c.JSON)
	err = u.Run(ctx, c.Files)
	printer.Stop()
	switch rejected := progress.Rejected.Load(); {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted: run the same command again to go on")
	case err != nil:
		return err
	case rejected > 0:
		return fmt.Errorf("%d rows were rejected: the same command with --rejected lists them, and why", rejected)
	}
	return nil
}

// apiKeyOf reads the API key from a file or, without one, from the environment.
func apiKeyOf(file string) (string, error) {
	if file == "" {
		key := os.Getenv(apiKey)
		if key == "" {
			return "", fmt.Errorf("the API key is missing: put it in %s, or in a file that --key-file names", apiKey)
		}
		return key, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the API key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if !strings.HasPrefix(key, "mun_") || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%s holds no API key: a key is one line that begins with mun_", file)
	}
	return key, nil
}

// transportTo reaches the service by at most so many connections at once, through the proxy of the environment if there is
// one. ca is a file of authorities to trust; empty is those of the system.
func transportTo(ca string, conns int) (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = conns
	if ca == "" {
		return t, nil
	}
	client, err := certs.NewClient(certs.Options{Use: "the service"}, certs.ClientFlags{CA: ca})
	if err != nil {
		return nil, err
	}
	t.TLSClientConfig = client.Config("") // net/http names the host
	return t, nil
}
