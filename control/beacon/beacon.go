// Package beacon makes beacons: URLs by which a player that can do no more than call one reports
// its plays. A beacon is a token, signed by a key of purpose beacon_signing, which holds everything
// about it. Only an audit event, beacon.created, is stored, without the token. So there is no list
// of beacons, and a single beacon can't be revoked. It ends when it expires, with the API key that
// made it, or with its right.
//
// The gateway answers the calls (GET /beacon/{token}). Nodes know the signing keys by the feed.
package beacon

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"time"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// longest is how long a beacon may live.
const longest = 90 * 24 * time.Hour

// Keys signs.
type Keys interface {
	// Signer is control's current key of a purpose.
	Signer(ctx context.Context, purpose string) (*sealer.Signer, error)
}

// Config of the service. Both fields are required.
type Config struct {
	DB   *store.DB
	Keys Keys
}

// Service is safe for concurrent use.
type Service struct{ cfg Config }

// New makes the service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Keys == nil {
		return nil, errors.New("cannot open the beacons: DB or Keys is missing")
	}
	return &Service{cfg}, nil
}

// NewBeacon is a request for a beacon.
type NewBeacon struct {
	RightID            string     `json:"rightId" minLength:"1" maxLength:"512" doc:"The right, ACTIVE now and at each call."`
	SpatialAnchorID    string     `json:"spatialAnchorId" minLength:"1" maxLength:"512" doc:"Where it is shown."`
	ExpiresAt          route.Time `json:"expiresAt" doc:"Its end, at most 90 days ahead. It ends with the calling API key as well."`
	MaxReceiptsPerHour int        `json:"maxReceiptsPerHour" minimum:"1" maximum:"1000000" doc:"How many receipts each node issues within any hour; more calls are passed over."`
}

// BeaconURL is the response.
type BeaconURL struct {
	URL       string        `json:"url" doc:"What the player calls, with ?eid= and an id of the play's own, and dwellMs=. Anyone who has it can report plays."`
	ExpiresAt store.Instant `json:"expiresAt" doc:"When the beacon expires."`
}

type input struct {
	route.Origin // the beacon's URL is at the address that the caller used
	Body         NewBeacon
}

// Routes adds the service's operation to the API.
func (s *Service) Routes(a route.API) {
	route.Add(a, route.Operation{
		ID: "create-beacon", Method: http.MethodPost, Path: "/v1/delivery/beacons", Tag: "Delivery", Access: route.Scope(api.DeliveryWrite),
		Summary: "Make a URL by which a player reports plays", Errors: []int{http.StatusNotFound, http.StatusConflict},
		Description: "For players that can only call a URL: `GET {url}?eid=…&dwellMs=…`. Each call with an `eid` of its own, 1 to 255 bytes, is a delivery of now, under the right and at the anchor " +
			"that are named here, without telemetry; its receipt's `correlationId` is `eid`. A second call with the same `eid` is the same play. Without `dwellMs` the dwell is 0, which most substrates don't bill; " +
			"other parameters are passed over. Whatever becomes of the play, the answer is a transparent image of 1×1, with `Cache-Control: no-store` and for every origin: a player can do nothing with an error.\n\n" +
			"`maxReceiptsPerHour` holds for each node by itself, within any hour, and a node's count starts again when it restarts. A node with more beacons in use than it can count accepts the plays of those it does not count, rather than lose them. The beacon is not stored and can't be revoked by itself: it ends with `expiresAt`, with the API key that made it, or with its right.",
	}, func(ctx context.Context, in *input) (BeaconURL, error) {
		return s.make(ctx, auth.PrincipalFrom(ctx), in)
	})
}

// errSandbox: a beacon is answered by any node, and only control's signs for the sandbox.
var errSandbox = api.Conflict("a tenant of the sandbox has no beacons: deliver by POST /v1/delivery or ingest-batch")

// errMember: nodes look for the key of a beacon's plays.
var errMember = api.Conflict("a beacon delivers under an API key, and ends with it: make it with a key, not as a member")

func (s *Service) make(ctx context.Context, by auth.Principal, in *input) (BeaconURL, error) {
	now := s.cfg.DB.Now().UTC().Truncate(time.Millisecond)
	expires, err := route.Given("expiresAt", &in.Body.ExpiresAt)
	switch {
	case by.Sandbox:
		return BeaconURL{}, errSandbox
	case api.IsID(api.PrefixMember, by.ID):
		return BeaconURL{}, errMember
	case err != nil:
		return BeaconURL{}, err
	case !expires.Time.After(now):
		return BeaconURL{}, api.InvalidField("expiresAt", "must be in the future")
	case expires.Time.Sub(now) > longest:
		return BeaconURL{}, api.InvalidField("expiresAt", "must be at most 90 days ahead")
	}
	right, err := store.Newest(ctx, s.cfg.DB, api.Rights, in.Body.RightID)
	switch {
	case err != nil:
		return BeaconURL{}, err
	case right == nil || right.TenantID != by.TenantID:
		return BeaconURL{}, api.NotFound("right")
	case right.State != api.RightActive:
		return BeaconURL{}, api.Conflict("the right is not ACTIVE: it is " + string(right.State))
	}
	signer, err := s.cfg.Keys.Signer(ctx, keydir.PurposeBeacon)
	if err != nil {
		return BeaconURL{}, fmt.Errorf("cannot make a beacon: %w", err)
	}
	issued := now
	if issued.Before(signer.NotBefore) {
		issued = signer.NotBefore
	}
	token, err := api.SignBeacon(&api.Beacon{
		TenantID: by.TenantID, KeyID: by.ID, RightID: right.ID, SpatialAnchorID: in.Body.SpatialAnchorID, IssuedAt: issued, ExpiresAt: expires.Time,
		MaxReceiptsPerHour: in.Body.MaxReceiptsPerHour, SigningKeyID: signer.KeyID,
	}, func(message []byte) ([]byte, error) { return signer.Key.Sign(nil, message, crypto.Hash(0)) })
	if err != nil {
		return BeaconURL{}, err
	}
	err = s.cfg.DB.Change(ctx, func(tx *store.Tx) error {
		return tx.EmitRecord(ctx, eventCreated, sealer.Event{
			At: now, TenantID: by.TenantID, Actor: store.ByKey(by.ID), Subject: sealer.Ref{Kind: "right", ID: right.ID},
		}, created{right.ID, in.Body.SpatialAnchorID, expires, in.Body.MaxReceiptsPerHour, by.ID})
	})
	return BeaconURL{in.Base() + api.PathBeacon + token, expires}, err
}

// The events about beacons. No operation reads beacons.
var (
	beaconEvents = &store.Noun{Name: "beacon"}
	eventCreated = beaconEvents.Kind("beacon.created", "The URL of a beacon was created.", created{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{beaconEvents}

// created is the data of the event: everything that the beacon allows.
type created struct {
	RightID            string        `json:"rightId"`
	SpatialAnchorID    string        `json:"spatialAnchorId"`
	ExpiresAt          store.Instant `json:"expiresAt" doc:"When the beacon expires."`
	MaxReceiptsPerHour int           `json:"maxReceiptsPerHour" doc:"How many plays may count per hour."`
	KeyID              string        `json:"keyId" doc:"The key under which the plays are delivered."`
}

// SchemaName returns the schema name in the OpenAPI document.
func (created) SchemaName() string { return "BeaconCreated" }
