package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"muniment.example/control/store"
)

// mostMembers is how many nodes an overview lists.
const mostMembers = 500

// Overview is what operators see of the nodes.
type Overview struct {
	LeaseMs int64    `json:"leaseMs" doc:"How long after its last recorded poll a node may sign."`
	Nodes   []Member `json:"nodes" doc:"The nodes that have polled lately or have records in their spool, at most 500: first those that matter most."`
	Total   int      `json:"total" doc:"How many such nodes there are."`
	// Registered tells a service all of whose nodes have been silent for long from one that has none.
	Registered bool `json:"registered" doc:"A node has started that is not expelled, whether it has polled lately or not."`
}

// Member is a node in an overview.
type Member struct {
	State
	Name     string `json:"name" doc:"In the certificate by which it joined; empty if it joined by an invitation."`
	AgeMs    int64  `json:"ageMs" doc:"How long ago it last polled, as far as this process has seen: at most that long."`
	Epoch    uint64 `json:"epoch" doc:"Which of the node's starts polls, counted from 1."`
	Spooled  int64  `json:"spooled" doc:"Records that it has promised and that were only in its spool at its last poll."`
	Expelled bool   `json:"expelled"`
	Leaving  bool   `json:"leaving" doc:"It was asked to leave."`
}

// SchemaName is as State's.
func (Member) SchemaName() string { return "NodeMember" }

// Overview lists the nodes: those with a spool first, then those that have been silent for longest.
func (s *Service) Overview(ctx context.Context) (Overview, error) {
	polls, err := s.polls(ctx, s.db.Read())
	if err != nil {
		return Overview{}, fmt.Errorf("cannot read the polls of nodes: %w", err)
	}
	now := s.cfg.Clock()
	maps.DeleteFunc(polls, func(_ string, p poll) bool { return s.forgotten(now, p) })
	o := Overview{LeaseMs: s.lease().Milliseconds(), Nodes: []Member{}, Total: len(polls)}
	for id, p := range polls {
		o.Nodes = append(o.Nodes, Member{
			State: State{NodeID: id, AppliedRevision: p.applied, Live: s.mayHoldLease(now, p) && !p.expelled},
			AgeMs: max(0, now-p.at).Milliseconds(), Epoch: p.epoch, Spooled: p.spooled, Expelled: p.expelled,
		})
	}
	slices.SortFunc(o.Nodes, func(a, b Member) int {
		return cmp.Or(cmp.Compare(b.Spooled, a.Spooled), cmp.Compare(b.AgeMs, a.AgeMs), strings.Compare(a.NodeID, b.NodeID))
	})
	o.Nodes = o.Nodes[:min(len(o.Nodes), mostMembers)]
	if o.Registered, err = registered(ctx, s.db.Read()); err != nil {
		return Overview{}, err
	}
	known, err := describe(ctx, s.db.Read(), o.Nodes)
	if err != nil {
		return Overview{}, err
	}
	for i := range o.Nodes {
		if m, ok := known[o.Nodes[i].NodeID]; ok {
			o.Nodes[i].Name, o.Nodes[i].Leaving = m.name, m.leaving
		}
	}
	return o, nil
}

// describe reads the names of nodes, and whether they were asked to leave.
func describe(ctx context.Context, q store.Querier, nodes []Member) (map[string]member, error) {
	known := map[string]member{}
	if len(nodes) == 0 {
		return known, nil
	}
	var ids []any
	for _, n := range nodes {
		ids = append(ids, n.NodeID)
	}
	found, err := store.List(ctx, q, "the nodes", func(row store.Row) (m member, err error) {
		return m, row.Scan(&m.nodeID, &m.leaving, &m.name)
	}, `SELECT n.node_id, n.leaving_at IS NOT NULL, COALESCE(named.name, '') FROM nodes n LEFT JOIN node_names named ON named.node_id = n.node_id
		WHERE n.node_id IN (`+store.Marks(0, len(ids))+`)`, ids...)
	for _, m := range found {
		known[m.nodeID] = m
	}
	return known, err
}
