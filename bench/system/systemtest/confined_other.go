//go:build !linux

package systemtest

import "os"

func confined() { os.Exit(exitNotConfined) }
