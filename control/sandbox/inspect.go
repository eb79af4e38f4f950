package sandbox

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"muniment/control/challenge"
	"muniment/control/offer"
	"muniment/control/proof"
	"muniment/control/right"
	"muniment/control/tenant"
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
	RightID string `query:"rightId" required:"true" minLength:"1" doc:"The right's id."`
}) (*Answer[Provenance], error) {
	p, err := read[right.Provenance](ctx, r, "/v1/rights/"+url.PathEscape(in.RightID)+"/provenance")
	if err != nil {
		return nil, err
	}
	last := len(p.Lineage) - 1
	return tell(Provenance{p.Basis, p.Lineage[0], p.Lineage[min(1, last):last], p.Lineage[last], p.Derived}, nil)
}

// What a list of the sandbox has at most: records, and bytes, but for the last page or
// header. A visitor's records may be long, and whole lists are held in memory.
const (
	mostListed = 500
	mostBytes  = 2 << 20
	pageOf     = 50
)

// all reads a list of /v1, of which query may name a part, page by page.
func all[T any](ctx context.Context, r *Room, list, member string, query url.Values) ([]T, error) {
	found, size := []T{}, 0
	asked := url.Values{"limit": {strconv.Itoa(pageOf)}}
	maps.Copy(asked, query)
	for {
		text, err := r.ask(ctx, http.MethodGet, "/v1/"+list+"?"+asked.Encode(), nil)
		if err != nil {
			return nil, err
		}
		size += len(text)
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
		if next == nil || len(found) >= mostListed || size >= mostBytes {
			return found, nil
		}
		asked.Set("cursor", *next)
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
	t, err := read[tenant.Snapshot](ctx, r, "/v1/tenant")
	if err != nil {
		return nil, err
	}
	i := Inspection{Tenant: Tenant(t.Tenant), Packs: []json.RawMessage{}}
	if i.Bases, err = all[right.BasisView](ctx, r, "bases", "bases", nil); err != nil {
		return nil, err
	}
	if i.Rights, err = all[right.View](ctx, r, "rights", "rights", nil); err != nil {
		return nil, err
	}
	if i.Offers, err = all[offer.Offer](ctx, r, "offers", "offers", nil); err != nil {
		return nil, err
	}
	if i.Challenges, err = all[challenge.Challenge](ctx, r, "challenges", "challenges", nil); err != nil {
		return nil, err
	}
	if i.Events, err = all[proof.LoggedEvent](ctx, r, "events", "events", nil); err != nil {
		return nil, err
	}
	packs, err := r.packs(ctx)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, p := range slices.Backward(packs) {
		one, err := read[struct {
			Header json.RawMessage `json:"header"`
		}](ctx, r, "/v1/proof-packs/"+p.ID)
		if err != nil {
			return nil, err
		}
		i.Packs = append(i.Packs, one.Header)
		if size += len(one.Header); size >= mostBytes {
			break
		}
	}
	slices.Reverse(i.Packs)
	return tell(i, nil)
}
