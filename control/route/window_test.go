package route_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// ends is a log with several partitions, and where each ends.
type ends map[int32]sealer.Position

func (e ends) PartitionOf(_ context.Context, tenantID string) (int32, error) {
	return map[string]int32{"tnt_a": 0, "tnt_b": 1, api.SystemTenant: 2}[tenantID], nil
}

func (e ends) Bounds(_ context.Context, partition int32) (first, end sealer.Position, err error) {
	return sealer.Position{}, e[partition], nil
}

// loadedTo is a warehouse, and how far it has loaded each partition.
type loadedTo map[int32]sealer.Position

func (l loadedTo) Resume(_ context.Context, partition int32) (next sealer.Position, ok bool, err error) {
	next, ok = l[partition]
	return next, ok, nil
}

// TestPositionsAreOfTheTenantsPartition: a position of another partition is refused.
func TestPositionsAreOfTheTenantsPartition(t *testing.T) {
	log := ends{0: {Generation: 1, Offset: 3}, 1: {Generation: 1, Partition: 1, Offset: 8}, 2: {Generation: 1, Partition: 2}}
	loaded := loadedTo{0: {Generation: 1, Offset: 3}, 1: {Generation: 1, Partition: 1, Offset: 6}}
	position := func(tenantID, asOf string) (at, refused string) {
		p, err := route.AsOf{AsOf: asOf}.Position(t.Context(), loaded, log, tenantID)
		if err != nil {
			e := api.From(err)
			return "", string(e.Code) + " " + string(e.Reason)
		}
		if p == nil {
			return "nothing", ""
		}
		return p.String(), ""
	}
	for _, c := range []struct{ tenantID, asOf, at, refused string }{
		{"tnt_a", "", "1.0.3", ""},
		{"tnt_b", "", "1.1.6", ""},
		{api.SystemTenant, "", "nothing", ""},
		{"tnt_b", "1.1.5", "1.1.5", ""},
		{"tnt_b", "1.0.2", "", "VALIDATION_FAILED "},
		{"tnt_a", "1.1.2", "", "VALIDATION_FAILED "},
		{"tnt_b", "1.1.7", "", "INTERNAL_ERROR WAREHOUSE_BEHIND"},
		{"tnt_b", "1.1.9", "", "VALIDATION_FAILED "},
		{api.SystemTenant, "1.2.0", "", "INTERNAL_ERROR WAREHOUSE_BEHIND"},
	} {
		at, refused := position(c.tenantID, c.asOf)
		require.Equal(t, c.at, at, "%+v", c)
		require.Equal(t, c.refused, refused, "%+v", c)
	}
}
