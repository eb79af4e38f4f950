package control

import (
	"context"
	"time"

	"muniment.example/control/node"
	"muniment.example/control/requests"
	"muniment.example/control/right"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// feedWait is how long a poll of the feed waits for a commit. Nodes renew their lease by polling, so
// it is much shorter than the lease's bound.
const feedWait = 500 * time.Millisecond

// Source serves the feed to a node in this process.
type Source struct {
	db       *store.DB
	keys     *signing.Service
	nodes    *node.Service
	requests *requests.Service // may be nil
}

// Source returns the feed of the primary database.
func (c *Control) Source() *Source { return &Source{c.cfg.DB, c.cfg.Keys, c.cfg.Nodes, c.cfg.Requests} }

// Feed returns at once if the database's newest revision is not req.After, and otherwise after the
// next commit or feedWait. It first records the node's poll, whose process it refuses if another runs as
// the node (api.IsSuperseded). What the node has counted is taken with an answer alone, as it tells it again
// otherwise.
func (s *Source) Feed(ctx context.Context, req api.FeedRequest) (api.Feed, error) {
	f, err := s.feed(ctx, req)
	if err == nil && s.requests != nil {
		s.requests.Add(req.KeyUses)
	}
	return f, err
}

func (s *Source) feed(ctx context.Context, req api.FeedRequest) (api.Feed, error) {
	if err := s.nodes.Polled(ctx, req); err != nil {
		return api.Feed{}, err
	}
	timeout := time.NewTimer(feedWait)
	defer timeout.Stop()
	for {
		changed := s.db.Changed()
		f, err := s.db.Feed.Changes(ctx, req)
		if err != nil {
			return f, err
		}
		if f.Newest != req.After {
			return s.withKeys(ctx, f, req)
		}
		select {
		case <-changed:
		case <-timeout.C:
			return s.withKeys(ctx, f, req)
		case <-ctx.Done():
			return api.Feed{}, ctx.Err()
		}
	}
}

// withKeys adds the node's keys that have an end or are revoked. It reads them last, so that a key
// that was revoked before the response is revoked in it.
func (s *Source) withKeys(ctx context.Context, f api.Feed, req api.FeedRequest) (_ api.Feed, err error) {
	if len(req.SigningKeys) > 0 {
		f.SigningKeys, err = s.keys.EndingKeys(ctx, req.NodeID, req.SigningKeys)
	}
	return f, err
}

// Snapshot reads the newest snapshot of one record from the primary database.
func (s *Source) Snapshot(ctx context.Context, kind, id string) (api.Snapshot, error) {
	return s.db.Feed.Snapshot(ctx, kind, id)
}

// Suspended reports whether rights were suspended at moments.
func (s *Source) Suspended(ctx context.Context, moments []api.RightMoment) ([]bool, error) {
	return right.Suspended(ctx, s.db, moments)
}

// Snapshots reads the newest snapshots of several records of a kind.
func (s *Source) Snapshots(ctx context.Context, kind string, ids []string) (api.Snapshots, error) {
	return s.db.Feed.Snapshots(ctx, kind, ids)
}
