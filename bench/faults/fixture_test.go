package faults

import (
	"os"
)

// systemPath is PATH without them: what is no part of a test finds the system's curl there.
var systemPath = os.Getenv("PATH")
