//go:build !linux

package issue

// yieldProcessor does nothing: threads have no priorities of their own here.
func yieldProcessor() {}
