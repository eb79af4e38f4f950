package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"muniment.example/control/proof"
	"muniment.example/control/right"
	"muniment.example/gateway/api"
)

// scene has the parameters from which deliveries on a substrate of the seed are drawn.
type scene struct {
	anchors   []string
	dwellMs   float64 // the median
	spread    float64 // of the logarithm
	longest   float64 // in milliseconds
	telemetry []object
}

var scenes = map[string]scene{
	"DOOH": {
		[]string{"times-square-north", "penn-station-hall-2", "i-95-exit-13", "union-square-kiosk-4"}, 6800, 0.45, 15_000,
		[]object{{"viewable": true}, {"viewable": true, "lightingState": "ok"}, {"viewable": false}},
	},
	"CTV": {
		[]string{"pre-roll-1", "mid-roll-1", "mid-roll-2"}, 24_000, 0.5, 30_000,
		[]object{{"viewable": true, "audible": true, "completionState": "complete"}, {"viewable": true, "muted": true, "completionState": "midpoint"}},
	},
	"MOBILE": {
		[]string{"feed-slot-3", "feed-slot-9", "interstitial", "reward"}, 2900, 0.6, 20_000,
		[]object{{"viewable": true, "appState": "foreground"}, {"viewable": true, "appState": "foreground", "audible": true}, {"appState": "background"}},
	},
	"MESSAGING": {
		[]string{"sms-thread", "push-banner"}, 4200, 0.5, 60_000,
		[]object{{"viewable": true}, {}},
	},
}

// demoPlay is one synthetic delivery.
type demoPlay struct {
	right              right.View
	SpatialAnchorID    string  `json:"spatialAnchorId"`
	SpatialPlacementID *string `json:"spatialPlacementId"`
	RightID            string  `json:"rightId"`
	DwellMs            float64 `json:"dwellMs"`
	CorrelationID      string  `json:"correlationId"`
	Telemetry          object  `json:"telemetry"`
}

// script draws deliveries on rights: the same ones for the same seed and rights.
func script(seed float64, count int, on []right.View) []demoPlay {
	random := rand.New(rand.NewPCG(math.Float64bits(seed+0), 0)) // −0 is 0
	list := make([]demoPlay, 0, count)
	for i := range count {
		r := on[random.IntN(len(on))]
		s := scenes[r.Substrate]
		anchor, telemetry := s.anchors[random.IntN(len(s.anchors))], s.telemetry[random.IntN(len(s.telemetry))]
		dwell := math.Round(min(s.dwellMs*math.Exp(s.spread*random.NormFloat64()), s.longest))
		list = append(list, demoPlay{
			right: r, RightID: r.ID, SpatialAnchorID: anchor, DwellMs: dwell, Telemetry: telemetry, CorrelationID: fmt.Sprintf("demo-%d", i+1),
		})
	}
	return list
}

// demo makes deliveries for a visitor.
type demo struct {
	*core
	*budget
}

// playable lists the rights that a demo delivers on: the ACTIVE ones of the seed's substrates, in
// an order that is the same for every tenant. There is one request for each substrate, so that
// many rights on other substrates, or suspended ones, can't crowd out the list.
func (s *demo) playable(ctx context.Context) (some []right.View, err error) {
	for _, wanted := range seedRights {
		rights, _, err := all[right.View](ctx, s.core, "rights", "rights", url.Values{
			"substrate": {wanted.substrate}, "state": {string(api.RightActive)},
		})
		if err != nil {
			return nil, err
		}
		rights = slices.DeleteFunc(rights, func(r right.View) bool { return r.EffectiveState != api.RightActive })
		slices.SortFunc(rights, func(a, b right.View) int { return cmp.Compare(a.ID, b.ID) })
		some = append(some, rights...)
	}
	return some, nil
}

// DemoRun is a request to run the demo.
type DemoRun struct {
	EventCount int      `json:"eventCount,omitempty" minimum:"1" maximum:"100" default:"12" doc:"How many deliveries to make."`
	Seed       *float64 `json:"seed,omitempty" doc:"The same seed makes the same sequence of rights, anchors and dwell times on the same rights. If absent, a seed is drawn."`
}

type demoInput struct{ Body *DemoRun }

// Delivered is a delivery of the demo, and its receipt.
type Delivered struct {
	RightID         string          `json:"rightId"`
	Substrate       string          `json:"substrate"`
	SpatialAnchorID string          `json:"spatialAnchorId" doc:"Where it was shown."`
	DwellMs         float64         `json:"dwellMs"`
	Receipt         json.RawMessage `json:"receipt" doc:"The signed receipt."`
	Signature       json.RawMessage `json:"signature" doc:"The signature over the receipt."`
	Metering        json.RawMessage `json:"metering" doc:"What is billed of the delivery, and why."`
}

// Undelivered is a delivery that was refused: nothing was signed.
type Undelivered struct {
	RightID         string  `json:"rightId"`
	Substrate       string  `json:"substrate"`
	SpatialAnchorID string  `json:"spatialAnchorId" doc:"Where it would have been shown."`
	DwellMs         float64 `json:"dwellMs"`
	Error           string  `json:"error" doc:"The error code of /v1."`
	Message         string  `json:"message"`
}

// Demo is the result of a run of the demo.
type Demo struct {
	Seed       float64         `json:"seed" doc:"The seed of the sequence."`
	EventCount int             `json:"eventCount" doc:"How many deliveries were attempted."`
	Deliveries []Delivered     `json:"deliveries" doc:"The deliveries that got a receipt, in their order."`
	Refused    []Undelivered   `json:"refused" doc:"The deliveries that were refused, because a right was narrowed, suspended or revoked."`
	PackID     string          `json:"packId" doc:"The pack into which all deliveries, or the last ones, were sealed."`
	Pack       json.RawMessage `json:"pack" doc:"The pack's header; the whole pack is under proof-packs."`
	Metering   json.RawMessage `json:"metering" doc:"The metering of the pack's receipts, as projected in its header."`
	Settlement json.RawMessage `json:"settlement" doc:"The settlement of the pack's receipts, as reconciled in its header."`
}

const defaultEvents = 12

func (s *demo) runDemo(ctx context.Context, in *demoInput) (Demo, error) {
	d := Demo{EventCount: defaultEvents, Seed: float64(rand.Uint32()), Deliveries: []Delivered{}, Refused: []Undelivered{}}
	if in.Body != nil {
		d.EventCount = in.Body.EventCount
		if in.Body.Seed != nil {
			d.Seed = *in.Body.Seed
		}
	}
	on, err := s.playable(ctx)
	if err != nil {
		return Demo{}, err
	}
	if len(on) == 0 {
		return Demo{}, api.Conflict("the tenant has no ACTIVE right on DOOH, CTV, MOBILE or MESSAGING")
	}
	if err := s.admit(ctx, d.EventCount+1); err != nil {
		return Demo{}, err
	}
	defer func() { s.count(ctx, len(d.Deliveries)+1) }() // and the pack's event
	for _, p := range script(d.Seed, d.EventCount, on) {
		if err := s.play(ctx, p, &d); err != nil {
			return Demo{}, err
		}
	}
	if d.Pack, err = s.sealAll(ctx); err != nil {
		return Demo{}, err
	}
	if len(d.Deliveries) > 0 { // the newest pack may be that of a concurrent run
		if d.Pack, err = s.packOf(ctx, d.Deliveries[len(d.Deliveries)-1]); err != nil {
			return Demo{}, err
		}
	}
	var header struct {
		PackID               string
		Metering, Settlement json.RawMessage
	}
	err = json.Unmarshal(d.Pack, &header)
	d.PackID, d.Metering, d.Settlement = header.PackID, header.Metering, header.Settlement
	return d, err
}

// maxSeals is how often a run of the demo requests a seal, each of which waits for the warehouse.
const maxSeals = 3

// sealAll seals everything that was delivered, and returns the header of the newest pack.
func (s *demo) sealAll(ctx context.Context) (newest json.RawMessage, err error) {
	var sealed proof.Sealed
	var body any
	for range maxSeals {
		text, err := s.call(ctx, http.MethodPost, "/v1/proof-packs/seal", body)
		if err == nil {
			err = json.Unmarshal(text, &sealed)
		}
		if err != nil || !sealed.More {
			return sealed.Pack, err
		}
		body = object{"upTo": sealed.UpTo}
	}
	return nil, api.Unavailable(api.WarehouseBehind, "the warehouse has not loaded all deliveries yet", time.Second)
}

// packOf returns the header of the pack that has a delivery's receipt.
func (s *demo) packOf(ctx context.Context, d Delivered) (header json.RawMessage, err error) {
	var receipt struct {
		ReceiptID string `json:"receiptId"`
	}
	if err := json.Unmarshal(d.Receipt, &receipt); err != nil {
		return nil, err
	}
	held, err := read[struct {
		Sealed struct {
			PackID string `json:"packId"`
		} `json:"sealed"`
	}](ctx, s.core, "/v1/receipts/"+receipt.ReceiptID)
	if err != nil {
		return nil, err
	}
	pack, err := read[struct {
		Header json.RawMessage `json:"header"`
	}](ctx, s.core, "/v1/proof-packs/"+held.Sealed.PackID)
	return pack.Header, err
}

// play makes one delivery and adds its result to into. After an error the result is unknown.
func (s *demo) play(ctx context.Context, p demoPlay, into *Demo) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	of := visitorOf(ctx).caller
	response, err := s.cfg.Deliver(ctx, of.TenantID, of.ID, body)
	if refused, ok := errors.AsType[*api.Error](err); ok {
		switch refused.GetStatus() {
		case http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed:
			into.Refused = append(into.Refused, Undelivered{p.RightID, p.right.Substrate, p.SpatialAnchorID, p.DwellMs, string(refused.Code), refused.Message})
			return nil
		case http.StatusUnauthorized: // the key was revoked meanwhile
			return evicted()
		}
	}
	if err != nil {
		return err
	}
	var made struct {
		Data struct{ Receipt, Signature, Metering json.RawMessage }
	}
	if err := json.Unmarshal(response, &made); err != nil {
		return err
	}
	into.Deliveries = append(into.Deliveries, Delivered{
		p.RightID, p.right.Substrate, p.SpatialAnchorID, p.DwellMs, made.Data.Receipt, made.Data.Signature, made.Data.Metering,
	})
	return nil
}
