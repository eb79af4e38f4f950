package challenge

import "muniment.example/control/store"

// Tables lists this package's tables.
var Tables = store.Tables{{Name: "challenges", Public: []string{"reason", "resolution"}}}
