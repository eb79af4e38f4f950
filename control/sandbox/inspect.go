package sandbox

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"muniment.example/control/challenge"
	"muniment.example/control/event"
	"muniment.example/control/offer"
	"muniment.example/control/proof"
	"muniment.example/control/right"
	"muniment.example/control/route"
	"muniment.example/control/tenant"
	"muniment.example/gateway/api"
)

// Provenance is a right's lineage from the basis down.
type Provenance struct {
	Basis         right.BasisView `json:"basis"`
	RootRight     right.View      `json:"rootRight" doc:"The right of the lineage that was issued under the basis itself."`
	DerivedRights []right.View    `json:"derivedRights" doc:"The rights between the root right and the target right, from the root on."`
	TargetRight   right.View      `json:"targetRight" doc:"The right of the request; the root right, if it is not derived."`
	Descendants   []right.View    `json:"descendants" doc:"Rights derived directly from the target right, newest first."`
}

func (s *Service) getProvenance(ctx context.Context, in *struct {
	RightID string `query:"rightId" required:"true" minLength:"1" doc:"The right's id."`
}) (Provenance, error) {
	p, err := read[right.Provenance](ctx, s.core, "/v1/rights/"+url.PathEscape(in.RightID)+"/provenance")
	if err != nil {
		return Provenance{}, err
	}
	last := len(p.Lineage) - 1
	return Provenance{p.Basis, p.Lineage[0], p.Lineage[min(1, last):last], p.Lineage[last], p.Derived}, nil
}

// The most records and bytes that a response has of one list; the last page or header may exceed
// the bytes. A visitor's records may be long, and whole lists are held in memory.
const (
	mostListed = 500
	mostBytes  = 2 << 20
	pageOf     = 50
)

// all reads a list of /v1, or the part that query selects, page by page up to the limits above.
// next is the cursor of the following page; empty at the end of the list.
func all[T any](ctx context.Context, c *core, list, member string, query url.Values) (found []T, next string, err error) {
	found, size := []T{}, 0
	request := url.Values{"limit": {strconv.Itoa(pageOf)}}
	maps.Copy(request, query)
	for {
		text, err := c.call(ctx, http.MethodGet, "/v1/"+list+"?"+request.Encode(), nil)
		if err != nil {
			return nil, "", err
		}
		size += len(text)
		var page map[string]json.RawMessage
		var following *string
		var records []T
		err = json.Unmarshal(text, &page)
		if err == nil {
			err = json.Unmarshal(page[member], &records)
		}
		if err == nil {
			err = json.Unmarshal(page["nextCursor"], &following)
		}
		if err != nil {
			return nil, "", err
		}
		found = append(found, records...)
		if following == nil {
			return found, "", nil
		}
		if len(found) >= mostListed || size >= mostBytes {
			return found, *following, nil
		}
		request.Set("cursor", *following)
	}
}

// Cursors name the truncated lists of an inspection, each with the cursor of its next part.
type Cursors struct {
	Bases      string `json:"bases,omitempty" query:"bases" maxLength:"256" doc:"Cursor of the next part of this list."`
	Rights     string `json:"rights,omitempty" query:"rights" maxLength:"256" doc:"Cursor of the next part of this list."`
	Offers     string `json:"offers,omitempty" query:"offers" maxLength:"256" doc:"Cursor of the next part of this list."`
	Challenges string `json:"challenges,omitempty" query:"challenges" maxLength:"256" doc:"Cursor of the next part of this list."`
	Events     string `json:"events,omitempty" query:"events" maxLength:"256" doc:"Cursor of the next part of this list."`
	Packs      string `json:"packs,omitempty" query:"packs" maxLength:"256" doc:"Cursor of the next part of this list: older packs."`
}

// Inspection is everything that a tenant has, newest first except for the packs.
type Inspection struct {
	Tenant     Tenant                `json:"tenant"`
	Bases      []right.BasisView     `json:"bases" doc:"The tenant's bases."`
	Rights     []right.View          `json:"rights" doc:"The tenant's rights."`
	Offers     []offer.Offer         `json:"offers" doc:"The tenant's offers."`
	Challenges []challenge.Challenge `json:"challenges" doc:"The tenant's challenges."`
	Events     []event.LoggedEvent   `json:"events" doc:"All events that tenant.counts.events counts."`
	Packs      []json.RawMessage     `json:"packs" doc:"The packs' headers, newest last."`
	Truncated  Cursors               `json:"truncated" doc:"The truncated lists, each with its cursor; empty if all lists are complete."`
}

func (s *Service) inspect(ctx context.Context, in *struct{ Cursors }) (Inspection, error) {
	t, err := read[tenant.Snapshot](ctx, s.core, "/v1/tenant") // comes first, because it waits for the events
	if err != nil {
		return Inspection{}, err
	}
	i, from, to := Inspection{Tenant: shown(t.Tenant)}, in.Cursors, Cursors{}
	whole := from == Cursors{}
	i.Bases, to.Bases, err = part[right.BasisView](ctx, s.core, "bases", from.Bases, whole)
	if err == nil {
		i.Rights, to.Rights, err = part[right.View](ctx, s.core, "rights", from.Rights, whole)
	}
	if err == nil {
		i.Offers, to.Offers, err = part[offer.Offer](ctx, s.core, "offers", from.Offers, whole)
	}
	if err == nil {
		i.Challenges, to.Challenges, err = part[challenge.Challenge](ctx, s.core, "challenges", from.Challenges, whole)
	}
	if err == nil {
		i.Events, to.Events, err = part[event.LoggedEvent](ctx, s.core, "events", from.Events, whole)
	}
	if err == nil {
		i.Packs, to.Packs, err = s.headers(ctx, from.Packs, whole)
	}
	i.Truncated = to
	return i, err
}

// part reads a list from a cursor on; without a cursor its beginning, or nothing unless whole.
func part[T any](ctx context.Context, c *core, list, cursor string, whole bool) (found []T, next string, err error) {
	switch {
	case cursor != "":
		return all[T](ctx, c, list, list, url.Values{"cursor": {cursor}})
	case whole:
		return all[T](ctx, c, list, list, nil)
	}
	return []T{}, "", nil
}

// headers is part for the packs' headers: the first part has the newest packs, and each part is in
// the order of sealing.
func (s *Service) headers(ctx context.Context, cursor string, whole bool) (headers []json.RawMessage, older string, err error) {
	headers = []json.RawMessage{}
	if cursor == "" && !whole {
		return headers, "", nil
	}
	n, err := s.cfg.CountPacks(ctx, visitorOf(ctx).caller.TenantID)
	if err == nil && cursor != "" {
		n, err = packsBefore(cursor, n)
	}
	if err != nil {
		return nil, "", err
	}
	packs, err := s.packs(ctx, n)
	if err != nil {
		return nil, "", err
	}
	size := 0
	for _, p := range slices.Backward(packs) {
		one, err := read[struct {
			Header json.RawMessage `json:"header"`
		}](ctx, s.core, "/v1/proof-packs/"+p.ID)
		if err != nil {
			return nil, "", err
		}
		headers = append(headers, one.Header)
		if size += len(one.Header); size >= mostBytes {
			break
		}
	}
	slices.Reverse(headers)
	return headers, proof.CursorBehind(max(0, n-mostListed) + int64(len(packs)-len(headers))), nil
}

// packsBefore is how many of a tenant's n packs are older than those before a cursor.
func packsBefore(cursor string, n int64) (int64, error) {
	seen, err := route.PageOf("/v1/proof-packs", cursor).Slice()
	before, notANumber := strconv.ParseInt(seen.Behind, 10, 64)
	if err != nil || notANumber != nil || before < 1 || before > n {
		return 0, api.InvalidField("packs", "is no cursor of this list")
	}
	return before, nil
}
