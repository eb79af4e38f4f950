package right

import "muniment/control/store"

// Tables lists this package's tables. Nodes get the rights.
var Tables = store.Tables{
	{Name: "rights", Feed: "right_id"},
	{Name: "bases"},
}
