//go:build !linux

package idempotency

// newBlock makes an array of n zero values.
func newBlock[T any](n int) *block[T] { return &block[T]{make([]T, n)} }
