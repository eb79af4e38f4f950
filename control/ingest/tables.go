package ingest

import "muniment/control/store"

// Tables are those of this room. Nodes get the mappings, by the vendor's id. Of a held row
// whose person is erased the telemetry goes as well.
var Tables = store.Tables{
	{Name: "held_rows", Person: []string{"data_subject_id"}, Erase: `UPDATE held_rows SET data_subject_id = $3, telemetry = '' WHERE tenant_id = $1 AND data_subject_id = $2`},
	{Name: "held_usage"},
	{Name: "mapping_totals"},
	{Name: "mappings", Feed: "vendor_key"},
}
