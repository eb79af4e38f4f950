// Package operator is the operators' page, at /console of the admin listener: what a person on call
// has to see of the service, without any other tool.
//
// The page is a folder of small files (page), with those that pages share (control/assets). It polls the
// operations under /console/api, each for one panel, so that a part of the service that is away
// leaves the other panels as they are. The operations keep no state of their own and count nothing: each
// reads what its package knows, or a metric of this process. The history in the page's charts is what
// the page itself has seen since it was opened.
//
//   - nodes: the nodes, the age of their leases, and their spools (control/node)
//   - lag: how far the warehouse is behind the log, by partition
//   - drift: muniment_metering_drift of this process. Of several control processes one checks for drift
//     at a time; the others say that it is not them.
//   - refusals: refusals by rule, of all tenants, over the last hours (pipeline.RuleCounter)
//   - quarantine: what holds sealing, and its release (control/proof)
//   - applications: applications for keys, to approve or refuse (control/access)
//
// # Who may see it
//
// "muniment console" requests a link with the admin token, and prints it. Its token is 256 random bits,
// in the fragment, so that it reaches no log of a proxy or server; the page takes it out of the address
// and sends it once. It is good once, for five minutes. It is exchanged for a cookie: HttpOnly,
// SameSite=Strict, for the path /console alone, Secure where the listener has TLS, good for an hour.
// Only SHA-256 of either is kept, in memory: links and sessions are this process's own, and end with
// it. Where there are several control processes, each has its own admin listener, and a link leads to
// the one that made it. The cookie's name is the process's own, too, as browsers send cookies to every
// port of a host.
//
// Control refuses every request of another origin that could change something
// (http.CrossOriginProtection), and the admin listener, on a loopback address, every foreign Host. A
// session opens these operations alone, and none under /admin.
//
// # What it shows
//
// No secrets, and of personal data only what applicants for a key wrote: their e-mail addresses,
// organisations and intended uses.
package operator

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment.example/control/access"
	"muniment.example/control/assets"
	"muniment.example/control/node"
	"muniment.example/control/proof"
	"muniment.example/pipeline"
	"muniment.example/sealer"
)

//go:embed page
var embedded embed.FS

// Log is what the page needs of the event log; pipeline.Reader has it.
type Log interface {
	Partitions(ctx context.Context) (int, error)
	Bounds(ctx context.Context, partition int32) (first, end sealer.Position, err error)
}

// Warehouse is what the page needs of the warehouse.
type Warehouse interface {
	Resume(ctx context.Context, partition int32) (next sealer.Position, ok bool, err error)
	pipeline.RuleCounter
}

// Config of the service. All but Secure and Now are required.
type Config struct {
	Nodes *node.Service
	Packs *proof.Service
	// Access decides on applications.
	Access    *access.Service
	Log       Log
	Warehouse Warehouse
	// Drift has the metrics of this process's check for drift: those of the whole process would ask the
	// database at each poll.
	Drift prometheus.Gatherer
	// Checking says whether this process checks for drift now.
	Checking func() bool
	// Secure says that the admin listener has TLS.
	Secure bool
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Service is safe for concurrent use.
type Service struct {
	cfg      Config
	page     *assets.Page
	sessions *sessions
	history  history
}

// New reads the page.
func New(cfg Config) (*Service, error) {
	if cfg.Nodes == nil || cfg.Packs == nil || cfg.Access == nil || cfg.Log == nil || cfg.Warehouse == nil || cfg.Drift == nil || cfg.Checking == nil {
		return nil, errors.New("cannot open the operators' page: Nodes, Packs, Access, Log, Warehouse, Drift or Checking is missing")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	page, err := assets.Open(embedded, assets.Policy)
	if err != nil {
		return nil, fmt.Errorf("cannot open the operators' page: %w", err)
	}
	return &Service{cfg: cfg, page: page, sessions: newSessions(cfg.Now)}, nil
}
