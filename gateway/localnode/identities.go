package localnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"muniment/gateway/api"
	"muniment/gateway/identity"
	"muniment/sealer/keyfile"
)

const (
	// mostIdentities bounds how many control processes that share a folder have a node each.
	mostIdentities = 1000
	// rotateEvery is the age at which a node rotates its key.
	rotateEvery = 90 * 24 * time.Hour
)

// Identities is a folder of the identities that a node may have. Control processes share it:
// each identity is claimed by one process that runs. All fields are required.
type Identities struct {
	// Name is the node's in the log, as in "the sandbox's node".
	Name string
	// Dir is the folder, on a volume that knows locks. It is made when it is missing.
	Dir string
	// Control is the URL of control's listener for nodes, Client how to reach it.
	Control string
	Client  *http.Client
	// Invite lets a node join, until the invitation expires.
	Invite func(ctx context.Context) (token string, expires time.Time, err error)
	Logger *slog.Logger

	// The invitation that no node has joined by yet, as far as is known: a node that tries to
	// join again needs no other.
	token   string
	expires time.Time
}

// Open opens the first identity of the folder that no other process has claimed, and makes one
// if there is none: so there are as many as processes ran at a time. It passes over an identity
// that is of no use: the node was expelled, a restored control does not know it any more, or it
// has lost a part of its folder. Not safe for concurrent use.
func (s *Identities) Open(ctx context.Context, metrics prometheus.Registerer) (*identity.Node, error) {
	if err := keyfile.MakeDir(s.Dir); err != nil {
		return nil, err
	}
	for number := 1; number <= mostIdentities; number++ {
		dir, offered := filepath.Join(s.Dir, strconv.Itoa(number)), false
		id, err := identity.Open(ctx, identity.Config{
			Dir: dir, Control: s.Control, Client: s.Client, RotateEvery: rotateEvery, Logger: s.Logger, Registerer: metrics,
			Invite: func(ctx context.Context) (string, error) {
				offered = true
				return s.invitation(ctx)
			},
		})
		if offered && (err == nil || expelled(err)) {
			s.token, s.expires = "", time.Time{} // it is used, or of no use
		}
		switch {
		case errors.Is(err, keyfile.ErrInUse):
		case expelled(err), identity.IsKnown(err):
			s.Logger.Warn("an identity of a node of this process is of no use any more, another takes its place", "node", s.Name, "dir", dir, "err", err)
		default:
			return id, err
		}
	}
	return nil, fmt.Errorf("none of the %d identities in %s can be used", mostIdentities, s.Dir)
}

func (s *Identities) invitation(ctx context.Context) (_ string, err error) {
	if time.Until(s.expires) < time.Minute {
		s.token, s.expires, err = s.Invite(ctx)
	}
	return s.token, err
}

// expelled says whether control refused a node's credential: an operator has expelled the
// node (403), or the database is of a time before it joined (401).
func expelled(err error) bool {
	refused, ok := errors.AsType[*api.Refused](err)
	return ok && (refused.Status == http.StatusForbidden || refused.Status == http.StatusUnauthorized)
}
