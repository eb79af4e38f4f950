package snapshot

import (
	"context"
	"fmt"
	"slices"
	"time"

	"muniment/gateway/api"
)

// VendorPlay is a play at what a vendor calls by an id of its own.
type VendorPlay struct {
	Vendor, IDType, VendorID string
	At                       time.Time
}

// Mapped is what a vendor's id stands for at the time of a play.
type Mapped struct {
	// Window is nil if no mapping was in force. It is shared, and not to be changed.
	Window *api.MappingWindow
	// Err is a 503 CONTROL_UNAVAILABLE if control would have to be asked and can't be.
	Err error
}

var errMappingAway = api.Unavailable(api.ControlUnavailable, "this node does not know the vendor's id, and control can't be asked now", time.Second)

// Mapping is Mappings for one play.
func (v *View) Mapping(ctx context.Context, tenantID string, play VendorPlay) Mapped {
	return v.Mappings(ctx, tenantID, []VendorPlay{play})[0]
}

// KnownMapping is Mapping for an id that the node knows; known is false for one that control
// would have to be asked for.
func (v *View) KnownMapping(tenantID string, play VendorPlay) (w *api.MappingWindow, known bool) {
	found, known := v.knownMapping(api.VendorKey(tenantID, play.Vendor, play.IDType, play.VendorID))
	if known {
		v.metrics.hits.Inc()
	}
	return windowAt(found, play.At), known
}

// Mappings returns for each play what its vendor's id stood for, as far as the feed has been
// applied: a mapping that is retired, or made later, changes the answers for the times that it
// is about, whenever the plays arrive. All ids that the node does not know are asked of control
// in one question, or one for each api.MostSnapshots of them; an id that control does not know
// either is remembered as well. One tenant's ids are nothing to another.
//
// It does not look at the lease; see Fresh.
func (v *View) Mappings(ctx context.Context, tenantID string, plays []VendorPlay) []Mapped {
	all := make([]Mapped, len(plays))
	var unknown map[string][]int // which plays ask for an id
	for i := range plays {
		p := &plays[i]
		id := api.VendorKey(tenantID, p.Vendor, p.IDType, p.VendorID)
		found, ok := v.knownMapping(id)
		if ok {
			v.metrics.hits.Inc()
			all[i].Window = windowAt(found, p.At)
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
	ids := make([]string, 0, len(unknown))
	for id := range unknown {
		ids = append(ids, id)
	}
	v.metrics.misses.Add(float64(len(ids)))
	slices.Sort(ids) // so that the database reads them in the order of its index
	for some := range slices.Chunk(ids, api.MostSnapshots) {
		found, err := v.readMappings(ctx, tenantID, some)
		for _, id := range some {
			for _, i := range unknown[id] {
				all[i] = Mapped{windowAt(found[id], plays[i].At), err}
			}
		}
	}
	return all
}

func windowAt(m *api.Mapping, moment time.Time) *api.MappingWindow {
	if m == nil {
		return nil
	}
	return m.At(moment)
}

// readMappings asks control for mappings that are not cached, with nothing that is older than
// what the feed told. Of an id without mappings there is none in the result.
func (v *View) readMappings(ctx context.Context, tenantID string, ids []string) (map[string]*api.Mapping, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	all := make(map[string]*api.Mapping, len(ids))
	left := ids
	for range maxLoads {
		found, asOf, err := v.loadMappings(ctx, tenantID, left)
		if err != nil {
			v.metrics.loadErrors.Inc()
			return nil, errMappingAway
		}
		var again []string
		for _, id := range left {
			if !v.mappings.told.covers(id, asOf) {
				again = append(again, id)
				continue
			}
			all[id] = found[id]
			v.keepMapping(id, cached[api.Mapping]{found[id], asOf})
		}
		if left = again; len(left) == 0 {
			return all, nil
		}
	}
	return nil, errMappingAway
}

// loadMappings is one question, for ids in order.
func (v *View) loadMappings(ctx context.Context, tenantID string, ids []string) (found map[string]*api.Mapping, asOf int64, err error) {
	s, err := v.cfg.Source.Snapshots(ctx, api.Mappings.Name, ids)
	if err != nil {
		return nil, 0, err
	}
	found = make(map[string]*api.Mapping, len(s.Changes))
	for i := range s.Changes {
		m, err := api.Mappings.Read(&s.Changes[i])
		if err == nil {
			if _, asked := slices.BinarySearch(ids, m.ID); !asked || m.TenantID != tenantID {
				err = fmt.Errorf("control shows the mapping %q of %s, which was not asked for", m.ID, m.TenantID)
			}
		}
		if err != nil {
			v.cfg.Logger.Error("cannot read control's answer", "err", err)
			return nil, 0, err
		}
		found[m.ID] = m
		v.mappings.told.raise(m.ID, m.Revision) // the feed may be behind: no later answer is older than this one
	}
	return found, s.AsOf, nil
}

// learnMapping has what is cached of an id read again. The snapshot itself is left: most of
// those of a large import are never met here.
func (v *View) learnMapping(c *api.Change) error {
	v.mappings.told.raise(c.ID, c.Revision)
	return nil
}

// mappingUnit is how many bytes of windows count as one entry of the cache.
const mappingUnit = 256

// smallMapping is the most of them that are worth a slot of the table before the cache.
const smallMapping = 16

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

// knownMapping returns what the cache has of an id; nil is that control knows none.
func (v *View) knownMapping(id string) (m *api.Mapping, ok bool) {
	c := v.mappings
	found, ok := c.recent.get(id)
	if ok && c.told.covers(id, found.asOf) {
		return found.value, true
	}
	if found, ok = c.kept.Get(id); !ok || !c.told.covers(id, found.asOf) {
		return nil, false
	}
	if mappingCost(found.value) <= smallMapping {
		c.recent.keep(id, found)
	}
	return found.value, true
}

func (v *View) keepMapping(id string, found cached[api.Mapping]) {
	v.mappings.kept.Set(id, found, mappingCost(found.value))
}
