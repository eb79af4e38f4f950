package node

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"muniment/control/store"
	"muniment/gateway/api"
	"muniment/sealer"
)

// # Joining by a certificate
//
// In place of an invitation a node may show a client certificate of an authority that control was
// given for nothing else (Config.NodeCA): so whatever issues certificates to machines can add
// nodes. The certificate has the extended key usage clientAuth, and one URI, api.NodeURI and the
// node's name. TLS proves that the node has the certificate's key, and the request, which its
// signing key signs, names the certificate: sent on over another connection it is refused.
// The certificate counts as the node joins, and never again: from then on its credential does.
//
// A name belongs to one node at a time. While that holds a lease, or joined less than a lease ago,
// nobody else joins under the name. Later another may: a machine was lost with its disk. Then
// the one before is asked to leave, so that if it comes back it brings what is in its spool into
// the log, and signs nothing. The name of a node that was expelled, or had it before, is barred until an
// operator lifts that (Unbar): neither its certificate nor another one brings it back. The node that has
// the name meanwhile goes on.

// certificate is the permit of a certificate.
type certificate struct {
	name, hash string
	// silent is the node that has the name and holds no lease any more; "" if there is none. It must
	// not have started within the last lease, either.
	silent string
	lease  time.Duration
}

// holder is the node that has a name.
type holder struct {
	nodeID             string
	takenAt, updatedAt store.Instant
	expelled           string // a node that has or had the name; "": none
}

func holderOf(ctx context.Context, from store.Querier, name string) (*holder, error) {
	return store.One(ctx, from, "the name "+name, func(row store.Row) (h holder, err error) {
		return h, row.Scan(&h.nodeID, &h.takenAt, &h.updatedAt, &h.expelled)
	}, `SELECT named.node_id, named.taken_at, n.updated_at, COALESCE((SELECT MAX(had.node_id) FROM node_names had JOIN nodes gone ON gone.node_id = had.node_id
			WHERE had.name = $1 AND gone.expelled_at IS NOT NULL), '')
		FROM node_names named JOIN nodes n ON n.node_id = named.node_id WHERE named.name = $1 ORDER BY named.taken_at DESC, named.node_id DESC LIMIT 1`, name)
}

// readCertificate returns the permit of a request that names the certificate of its connection.
func (r *Service) readCertificate(ctx context.Context, q api.JoinRequest, shown []*x509.Certificate) (permit, error) {
	switch {
	case q.Invitation != "":
		return nil, api.InvalidField("certificateHash", "excludes an invitation")
	case r.cfg.NodeCA == nil:
		return nil, refusedCertificate("control has no authority for nodes: start it with --node-ca, or join by an invitation")
	case len(shown) == 0:
		return nil, refusedCertificate("the connection showed none: nothing between node and control may end TLS")
	}
	hash := sha256.Sum256(shown[0].Raw)
	c := certificate{hash: hex.EncodeToString(hash[:]), lease: r.lease()}
	if q.CertificateHash != c.hash {
		return nil, api.InvalidField("certificateHash", "is not that of the connection's certificate: the request is for another connection")
	}
	var err error
	if c.name, err = nameIn(shown, r.cfg.NodeCA(), r.db.Now()); err != nil {
		return nil, err
	}
	before, err := holderOf(ctx, r.db.Read(), c.name)
	if err == nil && before != nil && before.nodeID != q.NodeID {
		var live bool
		if live, err = r.isLive(ctx, before.nodeID); !live && r.db.Now().Sub(before.takenAt.Time).Abs() > r.lease() {
			c.silent = before.nodeID
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot let a node join as %s: %w", c.name, err)
	}
	return c, nil
}

func refusedCertificate(why string) *api.Error {
	return &api.Error{Code: api.AuthInvalid, Message: "the certificate does not let a node join: " + why}
}

var nodeName = regexp.MustCompile(`^[a-z0-9.-]{1,63}$`)

// nameIn returns the name of the node that a certificate, the first of the chain, was issued to.
func nameIn(chain []*x509.Certificate, authorities *x509.CertPool, now time.Time) (string, error) {
	leaf := chain[0]
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: authorities, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case now.After(leaf.NotAfter):
		return "", refusedCertificate("it expired at " + sealer.FormatTime(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		return "", refusedCertificate("it is not valid before " + sealer.FormatTime(leaf.NotBefore))
	case isInvalid && invalid.Reason == x509.IncompatibleUsage, err == nil && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return "", refusedCertificate("it lacks the extended key usage clientAuth")
	case isUnknown:
		return "", refusedCertificate("it is not of an authority in control's --node-ca")
	case err != nil:
		return "", refusedCertificate(err.Error())
	case len(leaf.URIs) != 1:
		return "", refusedCertificate(fmt.Sprintf("it has %d URIs (subjectAltName), and must have one, %sNAME", len(leaf.URIs), api.NodeURI))
	}
	name, ok := strings.CutPrefix(leaf.URIs[0].String(), api.NodeURI)
	if !ok || !nodeName.MatchString(name) {
		return "", refusedCertificate(fmt.Sprintf("its URI is %q, and must be %sNAME, with a name of 1 to 63 lower-case letters, digits, '-' and '.'", leaf.URIs[0], api.NodeURI))
	}
	return name, nil
}

// check is permit's: a node that joins so signs receipts, and nothing else.
func (c certificate) check(ctx context.Context, from store.Querier, now time.Time, nodeID string) (purpose string, used bool, err error) {
	h, err := holderOf(ctx, from, c.name)
	switch {
	case err != nil:
		return "", false, err
	case h == nil:
		return sealer.PurposeReceipt, false, nil
	case h.nodeID == nodeID:
		return sealer.PurposeReceipt, true, nil
	case h.expelled != "":
		e := errExpelled(h.expelled)
		e.Message = "the name " + c.name + " is barred, as its node " + h.expelled + " was expelled: an operator lifts that by muniment node unbar " + c.name
		return "", false, e
	case h.nodeID != c.silent, now.Sub(h.updatedAt.Time).Abs() <= c.lease: // it may have started since
		return "", false, api.Conflict("the name " + c.name + " belongs to the node " + h.nodeID + ", which may be signing: it is free once that node has been silent for the lease bound")
	}
	return sealer.PurposeReceipt, false, nil
}

// use gives the name to a node that joins. The one that had it is asked to leave.
func (c certificate) use(ctx context.Context, tx *store.Tx, nodeID string, again bool) error {
	m, err := find(ctx, tx, nodeID)
	switch {
	case err != nil:
		return err
	case again:
		return api.Conflict("the node has joined before, but not as " + c.name + ": it needs no certificate any more")
	case m.leaving && c.silent != "":
		return api.Conflict("the node is to leave, and the name " + c.name + " belongs to the node " + c.silent + " since")
	case c.silent != "":
		by := sealer.Ref{Kind: "node", ID: nodeID}
		if err := recallNode(ctx, tx, c.silent, "the node "+nodeID+" has joined as "+c.name, by); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO node_names (node_id, name, taken_at) VALUES ($1, $2, $3)
		ON CONFLICT (node_id) DO UPDATE SET name = excluded.name, taken_at = excluded.taken_at`, nodeID, c.name, store.At(tx.Now()))
	return err
}

func (c certificate) describe() map[string]any {
	return map[string]any{"how": "certificate", "name": c.name, "certificateHash": c.hash}
}

const eventUnbarred = "node.unbarred"

// Unbarred is the answer to an operator who lifts the bar of a name.
type Unbarred struct {
	Name   string `json:"name"`
	NodeID string `json:"nodeId" doc:"The expelled node that had the name."`
}

// Unbar lets another node join under the name of nodes that were expelled.
func (r *Service) Unbar(ctx context.Context, name string, by sealer.Ref) (v Unbarred, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		h, err := holderOf(ctx, tx, name)
		switch {
		case err != nil:
			return err
		case h == nil:
			return &api.Error{Code: api.ResourceNotFound, Message: "no node has that name"}
		case h.expelled == "":
			return api.Conflict("the name is not barred: it belongs to the node " + h.nodeID)
		}
		v = Unbarred{Name: name, NodeID: h.expelled}
		for h != nil && h.expelled != "" && err == nil {
			if _, err := tx.ExecContext(ctx, `DELETE FROM node_names WHERE node_id = $1`, h.expelled); err != nil {
				return err
			}
			if err := tx.EmitSystem(ctx, eventUnbarred, by, sealer.Ref{Kind: "node", ID: h.expelled}, map[string]any{"name": name, "nodeId": h.expelled}); err != nil {
				return err
			}
			h, err = holderOf(ctx, tx, name)
		}
		return err
	})
	if err != nil {
		return Unbarred{}, fmt.Errorf("cannot lift the bar of the name %s: %w", name, err)
	}
	return v, nil
}

// barAgain bars the name of a node that was expelled, of which an older database knows nothing.
func barAgain(ctx context.Context, tx *store.Tx, name string, e *sealer.Event) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO node_names (node_id, name, taken_at) VALUES ($1, $2, $3) ON CONFLICT (node_id) DO NOTHING`,
		e.Subject.ID, name, store.At(e.At))
	return err
}

// unbarAgain lifts a bar that an older database has, or barAgain has set.
func unbarAgain(ctx context.Context, tx *store.Tx, e *sealer.Event) (changed bool, err error) {
	changed, err = store.Affected(tx.ExecContext(ctx, `DELETE FROM node_names WHERE node_id = $1
		AND EXISTS (SELECT 1 FROM nodes n WHERE n.node_id = node_names.node_id AND n.expelled_at IS NOT NULL)`, e.Subject.ID))
	if err != nil {
		return false, fmt.Errorf("cannot lift the bar of the name of the node %s again: %w", e.Subject.ID, err)
	}
	return changed, nil
}
