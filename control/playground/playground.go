// Package playground is the page at /playground, and the two operations that only it needs.
//
// The page is a visit to the sandbox, in a browser: a tenant, deliveries that pass the gate or don't,
// receipts that arrive, a pack, and its verification. It is a folder of small files (page), with those
// that pages share (control/assets). What it does to the tenant it does by
// the sandbox's own operations, which any program can call as well: it shows each as a curl command.
//
//   - POST /api/playground/delivery takes the body of POST /v1/delivery, from a visitor who has no
//     key: with the same gate, log and signatures, in the sandbox's envelope. What the gate refuses
//     is 412 with all violations. It is charged to the visitor's part of the sandbox's budget.
//   - GET /api/playground/events is a stream of server-sent events (feed.go, stream.go): what was
//     delivered or refused for the visitor's tenant in this process since the stream began. Nothing
//     is sent again: what a stream has missed is under /api/sandbox/inspect. Where there are several
//     control processes, a stream shows the deliveries of the process that it is connected to.
//
// A visitor has two streams at most, an address eight, and all together a third of the sandbox's reads that one gateway
// forwards, so that downloads are never kept out. A stream has a bounded queue: a reader who is slower
// than deliveries loses the stream, and nobody waits for him. It holds no connection to the database.
// It ends with its tenant, when the process drains, and after a quarter of an hour, when a browser
// begins another one by itself; so a place is never taken for good by a tab that was forgotten.
//
// Packs are verified in the visitor's browser by the program of the page /verify (control/verifier), which is loaded when
// somebody verifies.
package playground

import (
	"embed"
	"errors"
	"fmt"

	"muniment.example/control/assets"
	"muniment.example/control/sandbox"
)

//go:embed page
var embedded embed.FS

// Config of the service. Visitors and Feed are required.
type Config struct {
	// Visitors admits the sandbox's visitors, and delivers for them.
	Visitors *sandbox.Service
	// Feed is what the streams show. The sandbox's Deliver and Dropped have to lead through it.
	Feed *Feed
}

// Service is safe for concurrent use.
type Service struct {
	cfg  Config
	page *assets.Page
}

// New reads the page.
func New(cfg Config) (*Service, error) {
	if cfg.Visitors == nil || cfg.Feed == nil {
		return nil, errors.New("cannot open the playground: Visitors or Feed is missing")
	}
	page, err := assets.Open(embedded, assets.Policy)
	if err != nil {
		return nil, fmt.Errorf("cannot open the playground: %w", err)
	}
	return &Service{cfg, page}, nil
}
