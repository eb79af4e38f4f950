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

	"muniment.example/gateway/api"
	"muniment.example/gateway/identity"
	"muniment.example/sealer/keyfile"
)

const (
	// maxIdentities is how many control processes that share a folder can have a node each.
	maxIdentities = 1000
	// rotateEvery is the age at which a node rotates its key.
	rotateEvery = 90 * 24 * time.Hour
)

// Identities is a folder of identities for one node per control process. Control processes may
// share the folder; each claims one identity while it runs. All fields are required.
type Identities struct {
	// Name is the node's name in log lines and errors, such as "the sandbox's node".
	Name string
	// Dir is the folder, on a volume that supports file locks. It is created if it is missing.
	Dir string
	// Control is the URL of control's listener for nodes, and Client sends requests to it.
	Control string
	Client  *http.Client
	// Invite makes an invitation that lets a node join until it expires.
	Invite func(ctx context.Context) (token string, expires time.Time, err error)
	Logger *slog.Logger

	// The last invitation, if it is not known to be used: the next attempt to join takes it.
	token   string
	expires time.Time
}

// Open opens the first identity in the folder that no other process has claimed, and creates one
// if there is none. So there are as many as processes have run at the same time. It skips an
// identity that can't be used: its node was expelled, a restored control does not know the node,
// or a part of the identity was lost. Not safe for concurrent use.
func (s *Identities) Open(ctx context.Context, metrics prometheus.Registerer) (*identity.Node, error) {
	if err := keyfile.MakeDir(s.Dir); err != nil {
		return nil, err
	}
	for number := 1; number <= maxIdentities; number++ {
		dir, offered := filepath.Join(s.Dir, strconv.Itoa(number)), false
		id, err := identity.Open(ctx, identity.Config{
			Dir: dir, Control: []string{s.Control}, Client: s.Client, RotateEvery: rotateEvery, Logger: s.Logger, Registerer: metrics,
			Invite: func(ctx context.Context) (string, error) {
				offered = true
				return s.invitation(ctx)
			},
		})
		if offered && (err == nil || expelled(err)) {
			s.token, s.expires = "", time.Time{} // it was used, or is invalid
		}
		switch {
		case errors.Is(err, keyfile.ErrInUse):
		case expelled(err), identity.IsConflict(err):
			s.Logger.Warn("an identity of this process's node can no longer be used, trying the next one", "node", s.Name, "dir", dir, "err", err)
		default:
			return id, err
		}
	}
	return nil, fmt.Errorf("none of the %d identities in %s can be used", maxIdentities, s.Dir)
}

func (s *Identities) invitation(ctx context.Context) (_ string, err error) {
	if time.Until(s.expires) < time.Minute {
		s.token, s.expires, err = s.Invite(ctx)
	}
	return s.token, err
}

// expelled reports whether control has refused a node's credential: an operator has expelled the
// node (403), or the database was restored from a time before the node joined (401).
func expelled(err error) bool {
	refused, ok := errors.AsType[*api.Refused](err)
	return ok && (refused.Status == http.StatusForbidden || refused.Status == http.StatusUnauthorized)
}
