package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"muniment.example/control/node"
	"muniment.example/control/right"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// Config of the service. DB, Nodes and Deliver are required.
type Config struct {
	DB      *store.DB
	Nodes   right.Nodes
	Deliver Deliver
	// Erased returns what tells the persons of a tenant whom an erasure covers now, by the hash that
	// replaces their references; "" for others. It returns nil if there are none. Default: there are none.
	Erased func(ctx context.Context, q store.Querier, tenantID string) (hashOf func(reference string) string, err error)
	// MaxHeldRows and MaxHeldBytes bound what is held for one tenant. Defaults 500,000 and
	// 512 MiB.
	MaxHeldRows, MaxHeldBytes int64
	// MaxMappings bounds the mappings of one tenant, those that are retired included. Default 500,000.
	MaxMappings int64
	// RowAge is how long after its play a row is held, and accepted by nodes. Default and maximum:
	// api.MaxRowAge.
	RowAge time.Duration
	// Logger; nil is slog.Default.
	Logger *slog.Logger
}

// Delivered is the result of delivering a held row.
type Delivered struct {
	// ReceiptID is the id of the row's receipt, or of the receipt of an earlier row of its identity.
	ReceiptID string
	// Unmapped means that the node knows no mapping: it has not applied it yet, or there is none.
	Unmapped bool
	// SuspendedRightID is the right, if the node knows that it, or a right above it, is suspended.
	SuspendedRightID string
	// Err refuses the row. It is final unless its status is 429 or 5xx.
	Err *api.Error
}

// Deliver lets a node issue receipts for rows of one key under their identities, and returns a result
// for each. A row may be delivered more than once: repetitions are duplicates of the first. After an
// error the results are unknown, unless it is a final *api.Error, which refuses all rows. No receipt is
// issued after the end of ctx.
type Deliver func(ctx context.Context, tenantID, keyID string, rows []Delivery) ([]Delivered, error)

// Delivery is a held row that is delivered: the text of an api.Row, and its identity.
type Delivery struct {
	Row      []byte
	Identity api.RowIdentity
}

// Service is safe for concurrent use.
type Service struct {
	cfg   Config
	db    *store.DB
	nodes right.Nodes
}

// New returns the service. It starts nothing.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Nodes == nil || cfg.Deliver == nil {
		return nil, errors.New("cannot open the mappings: DB, Nodes or Deliver is missing")
	}
	if cfg.MaxHeldRows < 0 || cfg.MaxHeldBytes < 0 || cfg.MaxMappings < 0 {
		return nil, errors.New("cannot open the mappings: MaxHeldRows, MaxHeldBytes and MaxMappings must not be negative")
	}
	if cfg.RowAge < 0 || cfg.RowAge > api.MaxRowAge {
		return nil, fmt.Errorf("cannot open the mappings: RowAge %v is not from 0 to %v", cfg.RowAge, api.MaxRowAge)
	}
	cfg.RowAge = cmp.Or(cfg.RowAge, api.MaxRowAge)
	if cfg.MaxHeldRows == 0 {
		cfg.MaxHeldRows = 500_000
	}
	if cfg.MaxHeldBytes == 0 {
		cfg.MaxHeldBytes = 512 << 20
	}
	if cfg.MaxMappings == 0 {
		cfg.MaxMappings = 500_000
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Erased == nil {
		cfg.Erased = func(context.Context, store.Querier, string) (func(string) string, error) { return nil, nil }
	}
	return &Service{cfg: cfg, db: cfg.DB, nodes: cfg.Nodes}, nil
}

// create writes a mapping, with the requested fields filled in.
func (s *Service) create(ctx context.Context, requested Mapping, by sealer.Ref) (made Mapping, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) error {
		batch, err := s.begin(ctx, tx, requested.TenantID)
		if err != nil {
			return err
		}
		var other *Mapping
		made, other, err = batch.create(ctx, tx, requested, by)
		if errors.Is(err, errThere) {
			return made.overlaps(other)
		}
		if err != nil {
			return err
		}
		return batch.end(ctx, tx)
	})
	return made, err
}

// retire retires a mapping, and waits a bounded time for the nodes to apply it.
func (s *Service) retire(ctx context.Context, tenantID, id string, by sealer.Ref) (retired Mapping, p node.Propagation, err error) {
	err = s.db.Change(ctx, func(tx *store.Tx) (err error) {
		retired, err = retire(ctx, tx, tenantID, id, by)
		return err
	})
	if err != nil {
		return retired, p, err
	}
	return retired, s.nodes.Await(ctx, retired.Revision), nil
}

// making is the state of a change that creates one mapping, or several of an import.
type making struct {
	tenantID string
	held     bool            // the tenant holds rows
	rights   map[string]bool // known to exist
	replay   bool            // a new mapping covers held rows
	total    int64           // of the tenant's mappings
	most     int64           // that it may have
}

// begin begins a change that creates mappings.
func (s *Service) begin(ctx context.Context, tx *store.Tx, tenantID string) (*making, error) {
	b, err := begin(ctx, tx, tenantID)
	if err != nil {
		return nil, err
	}
	b.most = s.cfg.MaxMappings
	b.total, err = total(ctx, tx, tenantID, filter{})
	return b, err
}

// room returns an error if the tenant has all mappings that it may have.
func (b *making) room() error {
	if b.total < b.most {
		return nil
	}
	return api.Conflict(fmt.Sprintf("the tenant has the maximum of %d mappings; retired ones count, as late rows may still resolve by them", b.most))
}

// begin locks the tenant's held rows until the change's end.
func begin(ctx context.Context, tx *store.Tx, tenantID string) (*making, error) {
	u, err := lockUsage(ctx, tx, tenantID)
	return &making{tenantID: tenantID, held: u.rows > 0, rights: map[string]bool{}}, err
}

// create writes one mapping. A refusal writes nothing, so the change may continue.
func (b *making) create(ctx context.Context, tx *store.Tx, requested Mapping, by sealer.Ref) (made Mapping, other *Mapping, err error) {
	if made, err = requested.settle(store.At(tx.Now())); err != nil {
		return made, nil, err
	}
	if err := b.findRight(ctx, tx, made.Target.RightID); err != nil {
		return made, nil, err
	}
	if other, err = create(ctx, tx, &made, b.room, by); err != nil {
		return made, other, err
	}
	b.total++
	return made, nil, b.cover(ctx, tx, &made)
}

// cover marks the held rows that a new mapping covers.
func (b *making) cover(ctx context.Context, tx *store.Tx, m *Mapping) error {
	if !b.held {
		return nil
	}
	found, err := waits(ctx, tx, m)
	if found && err == nil {
		b.replay, err = true, mark(ctx, tx.Tx, b.tenantID, m.VendorKey)
	}
	return err
}

func (b *making) findRight(ctx context.Context, tx *store.Tx, id string) error {
	if b.rights[id] {
		return nil
	}
	if _, err := right.Find(ctx, tx, b.tenantID, id); err != nil {
		return err
	}
	b.rights[id] = true
	return nil
}

// end queues the delivery of held rows that a new mapping covers.
func (b *making) end(ctx context.Context, tx *store.Tx) error {
	if !b.replay {
		return nil
	}
	_, err := tx.Enqueue(ctx, replayJob(b.tenantID))
	return err
}
