package ingest

import (
	"context"

	"muniment.example/control/store"
)

// Tables lists this package's tables. Erasing a person also removes the telemetry of their held rows,
// unless a row names others too, and what could confirm a guess at it. Such a row keeps its identity, under
// which it is delivered once, and the vendor's id, by which it is mapped. Rows are held by transactions that
// are no changes, and lock the tenant's usage.
// What a player said of a rejected play has ids of players and places, times and numbers: formats keep nothing
// else of it. As a row it has the texts of a held one, which it may have been. It keeps the hash by which it is
// kept once, or a player that sends it again would bring the person back.
var Tables = store.Tables{
	{Name: "held_rows", Personal: &store.Personal{
		Kind: "heldRow", Key: []string{"held_id"}, Persons: []string{"data_subjects"}, JSON: append(inRow(), "telemetry.*", "error.observed"),
		Kept: []string{"vendor", "id_type", "vendor_id"}, About: "data_subjects", Related: []string{"telemetry"}, Also: "content_hash = ''", Versions: []string{"state", "held_id"},
		Before: func(ctx context.Context, tx *store.Tx, tenantID string) error {
			_, err := lockUsage(ctx, tx, tenantID)
			return err
		},
	}},
	{Name: "held_mapped"},
	{Name: "held_usage"},
	{Name: "mapping_totals"},
	{Name: "mappings", Feed: "vendor_key", Public: []string{"vendor", "id_type", "vendor_id", "spatial_anchor_id", "spatial_placement_id"}},
	{Name: "rejected_plays", Personal: &store.Personal{Kind: "rejectedPlay", Key: []string{"rejected_id"}, JSON: append(inRow(), "error.observed"), Versions: []string{"rejected_id"},
		Kept: []string{"row_text.vendor", "row_text.idType", "row_text.vendorId"}}},
}

// rowTexts are the members of a row that are free text.
var rowTexts = []string{"rowId", "spatialAnchorId", "spatialPlacementId", "correlationId"}

// inRow are they, in the column row_text.
func inRow() (paths []string) {
	for _, member := range rowTexts {
		paths = append(paths, "row_text."+member)
	}
	return paths
}
