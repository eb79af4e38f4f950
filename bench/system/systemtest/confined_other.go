//go:build !linux

package main

import "os"

func confined() { os.Exit(exitNotConfined) }
