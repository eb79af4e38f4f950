package challenge

import "muniment/control/store"

// Tables are those of this package.
var Tables = store.Tables{{Name: "challenges"}}
