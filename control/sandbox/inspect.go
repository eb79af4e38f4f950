package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"muniment/control/challenge"
	"muniment/control/offer"
	"muniment/control/proof"
	"muniment/control/right"
	"muniment/control/tenant"
	"muniment/gateway/auth"
)

// Provenance is a right's lineage from the basis down.
type Provenance struct {
	Basis         right.BasisView `json:"basis"`
	RootRight     right.View      `json:"rootRight" doc:"The right of the lineage that was issued under the basis itself."`
	DerivedRights []right.View    `json:"derivedRights" doc:"What lies between the root right and the target right, from the root on."`
	TargetRight   right.View      `json:"targetRight" doc:"The right asked for; the root right, if it is not derived."`
	Descendants   []right.View    `json:"descendants" doc:"Rights derived directly from the target right, newest first."`
}

func (r *Room) getProvenance(ctx context.Context, in *struct {
	RightID string `query:"rightId" required:"true" doc:"The right's id."`
}) (*Answer[Provenance], error) {
	p, err := read[right.Provenance](ctx, r, visitorOf(ctx).caller, "/v1/rights/"+url.PathEscape(in.RightID)+"/provenance")
	if err != nil {
		return nil, err
	}
	last := len(p.Lineage) - 1
	return tell(Provenance{p.Basis, p.Lineage[0], p.Lineage[min(1, last):last], p.Lineage[last], p.Derived}, nil)
}

// mostListed is how many records a list of the sandbox has at most.
const mostListed = 2000

// all reads a list of /v1 from page to page, mostListed at most.
func all[T any](ctx context.Context, r *Room, of auth.Principal, list, member string) ([]T, error) {
	found := []T{}
	for cursor := ""; ; {
		text, err := r.askFor(ctx, of, http.MethodGet, fmt.Sprintf("/v1/%s?limit=%d&cursor=%s", list, mostOf, url.QueryEscape(cursor)), nil)
		if err != nil {
			return nil, err
		}
		var page map[string]json.RawMessage
		var next *string
		var records []T
		err = json.Unmarshal(text, &page)
		if err == nil {
			err = json.Unmarshal(page[member], &records)
		}
		if err == nil {
			err = json.Unmarshal(page["nextCursor"], &next)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, records...)
		if next == nil || len(found) >= mostListed {
			return found, nil
		}
		cursor = *next
	}
}

// Inspection is everything of a tenant, newest first but for the packs.
type Inspection struct {
	Tenant     Tenant                `json:"tenant"`
	Bases      []right.BasisView     `json:"bases"`
	Rights     []right.View          `json:"rights"`
	Offers     []offer.Offer         `json:"offers"`
	Challenges []challenge.Challenge `json:"challenges"`
	Events     []proof.LoggedEvent   `json:"events" doc:"An event turns up here shortly after it happened."`
	Packs      []json.RawMessage     `json:"packs" doc:"The packs' headers, newest last."`
}

func (r *Room) inspect(ctx context.Context, _ *struct{}) (*Answer[Inspection], error) {
	of := visitorOf(ctx).caller
	t, err := read[tenant.Snapshot](ctx, r, of, "/v1/tenant")
	if err != nil {
		return nil, err
	}
	i := Inspection{Tenant: Tenant(t.Tenant), Packs: []json.RawMessage{}}
	if i.Bases, err = all[right.BasisView](ctx, r, of, "bases", "bases"); err != nil {
		return nil, err
	}
	if i.Rights, err = all[right.View](ctx, r, of, "rights", "rights"); err != nil {
		return nil, err
	}
	if i.Offers, err = all[offer.Offer](ctx, r, of, "offers", "offers"); err != nil {
		return nil, err
	}
	if i.Challenges, err = all[challenge.Challenge](ctx, r, of, "challenges", "challenges"); err != nil {
		return nil, err
	}
	if i.Events, err = all[proof.LoggedEvent](ctx, r, of, "events", "events"); err != nil {
		return nil, err
	}
	packs, err := all[proof.Summary](ctx, r, of, "proof-packs", "packs")
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Backward(packs[max(0, len(packs)-mostListed):]) {
		one, err := read[struct {
			Header json.RawMessage `json:"header"`
		}](ctx, r, of, "/v1/proof-packs/"+p.ID)
		if err != nil {
			return nil, err
		}
		i.Packs = append(i.Packs, one.Header)
	}
	slices.Reverse(i.Packs)
	return tell(i, nil)
}
