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

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/keydir"
)

// # Joining by a certificate
//
// Instead of an invitation a node may present a client certificate. It must come from an
// authority that control uses for nothing else (Config.NodeCA), so the system that issues
// certificates to machines can add nodes. The certificate has the extended key usage
// clientAuth, and exactly one URI: api.NodeURI followed by the node's name. TLS proves that the
// node holds the certificate's key. The request, signed by the node's signing key, names the
// certificate, so it is refused over a connection with another one. The certificate is checked
// only when the node joins; afterwards the node authenticates with its credential.
//
// A name belongs to one node at a time. While its holder has a lease, or joined less than a
// lease ago, no other node can join under the name. Afterwards another can, because a machine
// may have been lost with its disk. The previous holder is then asked to leave: if it comes
// back, it moves what is in its spool into the log, and signs nothing.
//
// Once an operator has requested the expulsion of a node that has or had the name, the name is
// barred, even if the expulsion has not completed: no other node can join under it, with any
// certificate, until an operator lifts the bar (Unbar). Otherwise a thief of the machine could
// join as another node while the operator waits. A node that holds the name by then is not
// affected.
//
// A process that is refused because of its name waits and repeats its request: it joins as soon as the
// other node is gone, or the bar is lifted.

// certificate is the permit of a node that joins by a certificate.
type certificate struct {
	name, hash string
	leases     *leases
}

// holder is the node that has a name.
type holder struct {
	nodeID             string
	joined             bool // it has a credential; a restored database may lack it
	takenAt, updatedAt store.Instant
	barredBy           string // a node that has or had the name, and that an operator expelled or asked to leave; "" if there is none
}

// holderOf returns the holder of a name, nil if no node has it.
func holderOf(ctx context.Context, from store.Querier, name string) (*holder, error) {
	return store.One(ctx, from, "the name "+name, func(row store.Row) (h holder, err error) {
		return h, row.Scan(&h.nodeID, &h.joined, &h.takenAt, &h.updatedAt, &h.barredBy)
	}, `SELECT named.node_id, EXISTS (SELECT 1 FROM node_credentials c WHERE c.node_id = named.node_id), named.taken_at, n.updated_at,
			COALESCE((SELECT MAX(had.node_id) FROM node_names had JOIN nodes gone ON gone.node_id = had.node_id
				WHERE had.name = $1 AND (gone.expelled_at IS NOT NULL OR gone.leaving_at > 0)), '')
		FROM node_names named JOIN nodes n ON n.node_id = named.node_id WHERE named.name = $1 ORDER BY named.taken_at DESC, named.node_id DESC LIMIT 1`, name)
}

// readCertificate returns the permit of a request to join by the certificate that its connection
// presented.
func (r *Service) readCertificate(q api.JoinRequest, presented []*x509.Certificate) (permit, error) {
	switch {
	case q.Invitation != "":
		return nil, api.InvalidField("certificateHash", "excludes an invitation")
	case r.cfg.NodeCA == nil:
		return nil, errCertificate("control has no authority for nodes: start it with --node-ca, or join by an invitation")
	case len(presented) == 0:
		return nil, errCertificate("the connection presented none: nothing between node and control may terminate TLS")
	}
	hash := sha256.Sum256(presented[0].Raw)
	c := certificate{hash: hex.EncodeToString(hash[:]), leases: r.leases}
	if q.CertificateHash != c.hash {
		return nil, api.InvalidField("certificateHash", "does not match the connection's certificate: the request was made for another connection")
	}
	var err error
	if c.name, err = nameIn(presented, r.cfg.NodeCA(), r.db.Now()); err != nil {
		return nil, err
	}
	return c, nil
}

func errCertificate(reason string) *api.Error {
	return &api.Error{Code: api.AuthInvalid, Message: "the certificate does not let a node join: " + reason}
}

var nodeName = regexp.MustCompile(`^[a-z0-9.-]{1,63}$`)

// nameIn verifies the certificate at the head of a chain, and returns the node name in it.
func nameIn(chain []*x509.Certificate, authorities *x509.CertPool, now time.Time) (string, error) {
	leaf := chain[0]
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: authorities, Intermediates: intermediates, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case now.After(leaf.NotAfter):
		return "", errCertificate("it expired at " + canonical.FormatTime(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		return "", errCertificate("it is not valid before " + canonical.FormatTime(leaf.NotBefore))
	case isInvalid && invalid.Reason == x509.IncompatibleUsage, err == nil && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return "", errCertificate("it lacks the extended key usage clientAuth")
	case isUnknown:
		return "", errCertificate("it was not issued by an authority in control's --node-ca")
	case err != nil:
		return "", errCertificate(err.Error())
	case len(leaf.URIs) != 1:
		return "", errCertificate(fmt.Sprintf("it has %d URIs (subjectAltName), and must have one, %sNAME", len(leaf.URIs), api.NodeURI))
	}
	name, ok := strings.CutPrefix(leaf.URIs[0].String(), api.NodeURI)
	if !ok || !nodeName.MatchString(name) {
		return "", errCertificate(fmt.Sprintf("its URI is %q, and must be %sNAME, with a name of 1 to 63 lower-case letters, digits, '-' and '.'", leaf.URIs[0], api.NodeURI))
	}
	return name, nil
}

// check implements permit. A node that joins by a certificate signs only receipts of tenants
// outside the sandbox.
//
// Whether the name's holder is live must be read within the change: the change may have waited, and
// a poll, which gives the holder a lease, changes nothing that the change would conflict with.
func (c certificate) check(ctx context.Context, from store.Querier, now time.Time, nodeID string) (purpose string, used bool, err error) {
	h, err := holderOf(ctx, from, c.name)
	switch {
	case err != nil:
		return "", false, err
	case h == nil:
		return keydir.PurposeReceipt, false, nil
	case h.nodeID == nodeID:
		return keydir.PurposeReceipt, h.joined, nil
	case h.barredBy != "":
		return "", false, errBarred(ctx, from, c.name, h.barredBy)
	}
	live, err := c.leases.isLive(ctx, from, h.nodeID)
	recent := func(at store.Instant) bool { return now.Sub(at.Time).Abs() <= c.leases.lease() }
	switch {
	case err != nil:
		return "", false, err
	case live, recent(h.takenAt), recent(h.updatedAt): // it may be about to poll for the first time since it joined or started
		held := api.Conflict("the name " + c.name + " belongs to the node " + h.nodeID + ", which may be signing: the name is free once that node has been silent for the lease bound")
		held.Field = api.FieldName
		return "", false, held
	}
	return keydir.PurposeReceipt, false, nil
}

// errBarred refuses a name because of the node that has or had it.
func errBarred(ctx context.Context, from store.Querier, name, nodeID string) error {
	m, err := find(ctx, from, nodeID)
	if err != nil {
		return err
	}
	because := "its node " + nodeID + " was expelled"
	if m.expelledAt.IsZero() {
		because = "an operator asked its node " + nodeID + " to leave"
	}
	e := errExpelled(nodeID)
	e.Field = api.FieldName
	e.Message = "the name " + name + " is barred because " + because + ": an operator can lift the bar with muniment node unbar " + name
	return e
}

// use gives the name to the node that joins, and asks the node that had it to leave.
func (c certificate) use(ctx context.Context, tx *store.Tx, nodeID string, again bool) error {
	m, err := find(ctx, tx, nodeID)
	if err != nil {
		return err
	}
	h, err := holderOf(ctx, tx, c.name)
	if err != nil {
		return err
	}
	silentHolder := "" // check refuses the name of a live one
	if h != nil && h.nodeID != nodeID {
		silentHolder = h.nodeID
	}
	switch {
	case again:
		return api.Conflict("the node has joined before, but not as " + c.name + ": it no longer needs a certificate")
	case m.leaving && silentHolder != "":
		return api.Conflict("the node is leaving, and the name " + c.name + " now belongs to the node " + silentHolder)
	case m.recalled:
		return nil // the node would bar another name, or a name again that an operator has unbarred
	case silentHolder != "":
		by := sealer.Ref{Kind: kindNode, ID: nodeID}
		if err := recallNode(ctx, tx, silentHolder, "the node "+nodeID+" has joined as "+c.name, by); err != nil {
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

// Unbarred is the response to an operator who lifts the bar on a name.
type Unbarred struct {
	Name   string `json:"name"`
	NodeID string `json:"nodeId" doc:"The node that had the name, and that was expelled or asked to leave."`
}

// Unbar lifts the bar on a name: another node may join under it. The name is not barred again when
// the expulsion of the node completes.
func (r *Service) Unbar(ctx context.Context, name string, by sealer.Ref) (v Unbarred, err error) {
	err = r.db.Change(ctx, func(tx *store.Tx) error {
		h, err := holderOf(ctx, tx, name)
		switch {
		case err != nil:
			return err
		case h == nil:
			return &api.Error{Code: api.ResourceNotFound, Message: "no node has this name"}
		case h.barredBy == "":
			return api.Conflict("the name is not barred: it belongs to the node " + h.nodeID)
		}
		v = Unbarred{Name: name, NodeID: h.barredBy}
		for h != nil && h.barredBy != "" && err == nil {
			if _, err := tx.ExecContext(ctx, `DELETE FROM node_names WHERE node_id = $1`, h.barredBy); err != nil {
				return err
			}
			if err := tx.EmitSystem(ctx, eventUnbarred, by, sealer.Ref{Kind: kindNode, ID: h.barredBy}, map[string]any{"name": name, "nodeId": h.barredBy}); err != nil {
				return err
			}
			h, err = holderOf(ctx, tx, name)
		}
		return err
	})
	if err != nil {
		return Unbarred{}, fmt.Errorf("cannot lift the bar on the name %s: %w", name, err)
	}
	return v, nil
}
