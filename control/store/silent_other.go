//go:build !linux

package store

import "syscall"

// endSilent does nothing: the kernel's defaults apply.
func endSilent(string, string, syscall.RawConn) error { return nil }
