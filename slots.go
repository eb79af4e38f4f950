package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/control/node"
	"muniment/gateway/identity"
	"muniment/sealer/keyfile"
)

// insideURL is control, for who dials it inside the process.
const insideURL = "http://localhost"

// mostSlots bounds how many control processes that share a folder have a node each.
const mostSlots = 1000

// slots are the folder of the identities that an ownNode may have: each slot holds
// one, of which nobody but a process that runs has a claim.
type slots struct {
	plane  *plane
	client *http.Client
	use    nodeUse
	// invitation is one that no node has joined by yet, as far as is known: to try again
	// and again makes no others.
	invitation node.Invitation
}

// join opens the first identity of the folder that no other process has, and makes one
// where there is none: so their number is that of the processes that ran at a time. What is
// of no use is passed over: who was expelled, whom a restored control does not know any
// more, and what has lost a part of its folder. The volume has to know locks.
func (s *slots) join(ctx context.Context, metrics prometheus.Registerer) (*identity.Node, error) {
	folder := filepath.Join(s.plane.cfg.Data, s.use.folder) // which control processes share
	if err := keyfile.MakeDir(folder); err != nil {
		return nil, err
	}
	for slot := 1; slot <= mostSlots; slot++ {
		dir, offered := filepath.Join(folder, strconv.Itoa(slot)), false
		invite := func(ctx context.Context) (string, error) {
			offered = true
			return s.invite(ctx)
		}
		n, err := identity.Open(ctx, identity.Config{
			Dir: dir, Control: insideURL, Client: s.client, RotateEvery: 90 * 24 * time.Hour,
			Invite: invite, Logger: s.plane.cfg.Logger, Registerer: metrics,
		})
		if offered && (err == nil || expelled(err)) {
			s.invitation = node.Invitation{} // it is used, or of no use
		}
		switch {
		case errors.Is(err, keyfile.ErrInUse):
		case expelled(err), identity.IsKnown(err):
			s.plane.cfg.Logger.Warn("an identity of a node of this process is of no use any more, another takes its place", "node", s.use.name, "dir", dir, "err", err)
		default:
			return n, err
		}
	}
	return nil, fmt.Errorf("none of the %d identities in %s can be used", mostSlots, folder)
}

func (s *slots) invite(ctx context.Context) (token string, err error) {
	if time.Until(s.invitation.ExpiresAt.Time) < time.Minute {
		s.invitation, err = s.use.invite(ctx, s.plane.nodes)
	}
	return s.invitation.Token, err
}
