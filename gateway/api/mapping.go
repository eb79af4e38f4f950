package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sort"
	"time"
)

// Mappings resolve vendors' ids to rights and anchors. A record is one id of a vendor with all
// its windows. Mappings are never stopped, so the first copy of the feed has none of them: a
// node requests each when a play needs it. Whether a delivery is allowed depends on its right
// alone.
var Mappings = Kind[Mapping]{"mapping", PrefixVendorKey, func(m *Mapping) (string, int64, bool) { return m.ID, m.Revision, false }, nil}

// Mapping is the snapshot of what one id of a vendor stands for. It is immutable once sent.
type Mapping struct {
	// ID is the VendorKey.
	ID       string `json:"id"`
	TenantID string `json:"tenantId"`
	Revision int64  `json:"revision"`
	// Windows are ordered by time and do not overlap. Those that ended long ago may be left out.
	Windows []MappingWindow `json:"windows"`
}

// MappingWindow is what plays of one stretch of time are deliveries of.
type MappingWindow struct {
	MappingID          string `json:"mappingId"`
	RightID            string `json:"rightId"`
	SpatialAnchorID    string `json:"spatialAnchorId"`
	SpatialPlacementID string `json:"spatialPlacementId,omitempty"`
	// From is inclusive, Until exclusive; a zero Until is open.
	From  time.Time `json:"from"`
	Until time.Time `json:"until,omitzero"`
}

// At returns the window that a moment is in, nil if there is none, or no mapping.
func (m *Mapping) At(moment time.Time) *MappingWindow {
	if m == nil {
		return nil
	}
	behind := sort.Search(len(m.Windows), func(i int) bool { return m.Windows[i].From.After(moment) })
	if behind == 0 {
		return nil
	}
	w := &m.Windows[behind-1]
	if !w.Until.IsZero() && !moment.Before(w.Until) {
		return nil
	}
	return w
}

// VendorKey names an id of a vendor in the feed: a hash, as the texts may be of any length.
// Each part counts with its length, so that no two of them have one name.
func VendorKey(tenantID, vendor, idType, vendorID string) string {
	text := make([]byte, 0, 256)
	for _, part := range [...]string{tenantID, vendor, idType, vendorID} {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	var key [len(PrefixVendorKey) + 43]byte
	return string(base64.RawURLEncoding.AppendEncode(append(key[:0], PrefixVendorKey...), sum[:]))
}
