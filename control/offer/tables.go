package offer

import "muniment/control/store"

// Tables are those of this room.
var Tables = store.Tables{{Name: "offers"}}
