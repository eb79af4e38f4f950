package sealer

import (
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Prefixes of ids.
const (
	eventPrefix   = "evt_"
	ReceiptPrefix = "rcp_"
	PackPrefix    = "ppk_"
	tenantPrefix  = "tnt_"
)

// originPrefix begins the name of every log of ours.
const originPrefix = "muniment/"

// systemTenant owns the events of nodes and operators. It is the one tenant whose id
// has no ULID.
const systemTenant = "tnt_system"

// ParseID reads prefix + ULID in its one spelling.
func ParseID(prefix, id string) (ulid.ULID, error) {
	text, ok := strings.CutPrefix(id, prefix)
	u, err := ulid.ParseStrict(text)
	if !ok || err != nil || u.String() != text {
		return ulid.ULID{}, fmt.Errorf("%q is no id of the form %s + ULID", id, prefix)
	}
	return u, nil
}

// checkTenant asks that id is that of a tenant.
func checkTenant(id string) error {
	if id == systemTenant {
		return nil
	}
	_, err := ParseID(tenantPrefix, id)
	return err
}

// CheckOrigin asks that origin names the log of a tenant.
func CheckOrigin(origin string) error {
	tenantID, ok := strings.CutPrefix(origin, originPrefix)
	if !ok {
		return fmt.Errorf("%q is no origin of the form %s + tenant", origin, originPrefix)
	}
	return checkTenant(tenantID)
}

// checkID asks that id is prefix + a ULID of the moment at, to the millisecond.
func checkID(prefix, id string, at time.Time) (ulid.ULID, error) {
	u, err := ParseID(prefix, id)
	if err != nil {
		return u, err
	}
	if int64(u.Time()) != at.UnixMilli() {
		return u, fmt.Errorf("id %s is of %s, not of %s", id, FormatTime(u.Timestamp()), FormatTime(at))
	}
	return u, nil
}
