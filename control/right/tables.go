package right

import "muniment/control/store"

// Tables are those of this package. Nodes get the rights.
var Tables = store.Tables{
	{Name: "rights", Feed: "right_id"},
	{Name: "bases"},
}
