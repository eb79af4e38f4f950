package snapshot

import (
	"context"
	"maps"
	"slices"
	"time"

	"muniment.example/gateway/api"
)

// VendorPlay is a play of a row that names a vendor's id.
type VendorPlay struct {
	Vendor, IDType, VendorID string
	At                       time.Time
}

// Mapped is what a vendor's id stands for at the time of a play.
type Mapped struct {
	// Window is nil if no mapping was in force. It is shared and must not be changed.
	Window *api.MappingWindow
	// Err is a 503 CONTROL_UNAVAILABLE if the node does not know and can't reach control.
	Err error
}

var errMappingAway = api.Unavailable(api.ControlUnavailable, "this node does not know the vendor's id, and control can't be reached now", time.Second)

// KnownMapping is Mappings for one play whose id the node knows; known is false if the id must
// be requested from control.
func (v *View) KnownMapping(tenantID string, play VendorPlay) (w *api.MappingWindow, known bool) {
	found, known := v.knownMapping(api.VendorKey(tenantID, play.Vendor, play.IDType, play.VendorID))
	if known {
		v.metrics.hits.Inc()
	}
	return found.At(play.At), known
}

// Mappings returns for each play what its vendor's id stood for, as far as the feed has been
// applied: a mapping that is retired, or made later, changes the answers for the times that it
// is about, whenever the plays arrive. All ids that the node does not know are requested from
// control, api.MostSnapshots in each request; an id that control does not know either is
// remembered as well. Each tenant has ids of its own.
//
// It does not check the lease; see Fresh.
func (v *View) Mappings(ctx context.Context, tenantID string, plays []VendorPlay) []Mapped {
	all := make([]Mapped, len(plays))
	var unknown map[string][]int // the plays of an id
	for i := range plays {
		p := &plays[i]
		id := api.VendorKey(tenantID, p.Vendor, p.IDType, p.VendorID)
		found, ok := v.knownMapping(id)
		if ok {
			v.metrics.hits.Inc()
			all[i].Window = found.At(p.At)
			continue
		}
		if unknown == nil {
			unknown = map[string][]int{}
		}
		unknown[id] = append(unknown[id], i)
	}
	if unknown == nil {
		return all
	}
	for id, found := range v.mappings.request(ctx, slices.Collect(maps.Keys(unknown)), errMappingAway) {
		if found.value != nil && found.value.TenantID != tenantID {
			v.cfg.Logger.Error("cannot use control's answer: a mapping is another tenant's", "id", id)
			found = received[api.Mapping]{err: errMappingAway}
		}
		if found.err == nil {
			v.mappings.kept.Set(id, found.cached, mappingCost(found.value))
		}
		for _, i := range unknown[id] {
			all[i] = Mapped{found.value.At(plays[i].At), found.err}
		}
	}
	return all
}

// learnMapping makes what is cached of an id unusable. It does not keep the snapshot: most of a
// large import are never used on this node.
func (v *View) learnMapping(c *api.Change) error {
	v.mappings.seen.raise(c.ID, c.Revision)
	return nil
}

// mappingUnit is how many bytes of windows count as one entry of the cache.
const mappingUnit = 256

func mappingCost(m *api.Mapping) int64 {
	if m == nil {
		return 1
	}
	bytes := 0
	for i := range m.Windows {
		w := &m.Windows[i]
		bytes += 160 + len(w.SpatialAnchorID) + len(w.SpatialPlacementID)
	}
	return 1 + int64(bytes)/mappingUnit
}

// knownMapping returns what is cached of an id; a nil mapping means that control has none.
func (v *View) knownMapping(id string) (m *api.Mapping, ok bool) {
	found, ok := v.mappings.kept.Get(id)
	if !ok || !v.mappings.seen.covers(id, found.asOf) {
		return nil, false
	}
	return found.value, true
}
