package sealer

import (
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"muniment.example/sealer/canonical"
)

// Prefixes of ids.
const (
	EventPrefix   = "evt_"
	ReceiptPrefix = "rcp_"
	PackPrefix    = "ppk_"
	tenantPrefix  = "tnt_"
)

// systemTenant owns the events of nodes and operators. Only its id has no ULID.
const systemTenant = "tnt_system"

// ParseID reads prefix + ULID, the ULID in upper case.
func ParseID(prefix, id string) (ulid.ULID, error) {
	text, ok := strings.CutPrefix(id, prefix)
	u, err := ulid.ParseStrict(text)
	if !ok || err != nil || u.String() != text {
		return ulid.ULID{}, fmt.Errorf("%q is not an id of the form %s + ULID", id, prefix)
	}
	return u, nil
}

// CheckTenant checks that id is the id of a tenant.
func CheckTenant(id string) error {
	if id == systemTenant {
		return nil
	}
	_, err := ParseID(tenantPrefix, id)
	return err
}

// checkID checks that id is prefix + a ULID of the moment at, to the millisecond.
func checkID(prefix, id string, at time.Time) error {
	u, err := ParseID(prefix, id)
	if err != nil {
		return err
	}
	if int64(u.Time()) != at.UnixMilli() {
		return fmt.Errorf("id %s is of %s, not of %s", id, canonical.FormatTime(u.Timestamp()), canonical.FormatTime(at))
	}
	return nil
}
