package ingest

import "muniment/control/store"

// Tables lists this package's tables. Nodes get the mappings, by the vendor's id. Erasing a person
// also removes the telemetry of their held rows, and what could confirm a guess at it: such a row
// keeps only its identity. A rejected play has ids of players and places, times and numbers: formats use
// nothing else of a play.
var Tables = store.Tables{
	{Name: "held_rows", Person: []string{"data_subject_id"}, Related: []string{"telemetry"}, Erase: `UPDATE held_rows SET data_subject_id = $3, telemetry = '', content_hash = '' WHERE tenant_id = $1 AND data_subject_id = $2`},
	{Name: "held_mapped"},
	{Name: "held_usage"},
	{Name: "mapping_totals"},
	{Name: "mappings", Feed: "vendor_key"},
	{Name: "rejected_plays"},
}
