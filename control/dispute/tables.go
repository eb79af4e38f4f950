package dispute

import "muniment.example/control/store"

// Tables lists this package's tables.
var Tables = store.Tables{{Name: "dispute_receipts"}, {Name: "disputes", Public: []string{"reason", "evidence", "resolution"}}}
