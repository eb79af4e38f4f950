package member

import "muniment.example/control/store"

// Tables are the tables of this package.
var Tables = store.Tables{
	{Name: "sessions"},
}
