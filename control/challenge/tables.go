package challenge

import "muniment/control/store"

// Tables are those of this room.
var Tables = store.Tables{{Name: "challenges"}}
