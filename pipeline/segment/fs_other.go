//go:build !linux

package segment

import "errors"

func (f osFile) Allocate(off, n int64) error { return errors.ErrUnsupported }
func (f osFile) Datasync() error             { return f.Sync() }
func (f osFile) Forget(off, n int64)         {}
