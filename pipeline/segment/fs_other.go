//go:build !linux

package segment

import "errors"

func (osFS) Run() uint64 { return 0 }

func (f osFile) Allocate(off, n int64) error { return errors.ErrUnsupported }
func (f osFile) Datasync() error             { return f.Sync() }
func (f osFile) Forget(off, n int64)         {}
