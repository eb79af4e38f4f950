package process

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"muniment.example/gateway/certs"
	"muniment.example/pipeline/trace"
)

// Flags are those of every command that serves.
type Flags struct {
	Log      string     `default:"text" enum:"text,json" help:"Form of the log: ${enum}."`
	LogLevel slog.Level `default:"info" level:"" help:"Lowest level that is logged: debug, info, warn or error."`

	Traces TracesFlags `embed:"" prefix:"traces-" group:"Traces:"`
}

// logger writes to standard error; a server's first line names its addresses. The level may change while the
// process runs.
func (f *Flags) logger() (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(f.LogLevel)
	options := &slog.HandlerOptions{Level: level}
	if f.Log == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options)), level
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options)), level
}

// TracesFlags say where traces go, and which requests are traced.
type TracesFlags struct {
	Endpoint string  `url:"http https" example:"http://127.0.0.1:4318" help:"URL of a collector that takes OTLP over HTTP in JSON, as http://127.0.0.1:4318, to which /v1/traces is added. Default: nothing is traced." placeholder:"URL"`
	Sample   float64 `default:"0.01" least:"0" most:"1" help:"Part of the requests that are traced, ${default} by default, besides those of which the caller says that its trace is sampled, of these at most 100 a second." placeholder:"RATIO"`
	CA       string  `name:"ca" help:"Certificate authorities to trust as the collector (PEM); default: those of the system." placeholder:"FILE" type:"path" file:"PEM"`
}

// Validate refuses what nothing can be sent to.
func (f TracesFlags) Validate() error {
	if f.CA != "" && !strings.HasPrefix(f.Endpoint, "https://") {
		return errors.New("--traces-ca needs a --traces-endpoint that begins with https://, for example https://traces.internal:4318")
	}
	if f.Endpoint == "" {
		return nil
	}
	if err := trace.CheckEndpoint(f.Endpoint); err != nil {
		return fmt.Errorf("--traces-endpoint %w, for example http://127.0.0.1:4318", err)
	}
	return nil
}

// open begins to export what p traces, until everything else of p has ended.
func (f TracesFlags) open(p *Process) error {
	if f.Endpoint == "" {
		return nil
	}
	hop, err := certs.NewClient(p.Certs("traces"), certs.ClientFlags{CA: f.CA})
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // it is only shown
	p.Tracer, err = trace.New(trace.Config{
		Endpoint: f.Endpoint, Sample: f.Sample, Service: strings.ReplaceAll(p.name, " ", "-"), Version: p.Build.Version, Host: host,
		Client: hop.HTTP(), Logger: p.Logger, Registerer: p.Registry,
	})
	if err == nil {
		p.Parts().Run("the export of traces", p.Tracer.Run)
	}
	return err
}
