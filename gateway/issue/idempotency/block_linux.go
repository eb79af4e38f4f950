package idempotency

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newBlock makes an array of n zero values. It lies outside of the heap where the
// system allows it: Go lets a heap grow to twice of what is used in it, so each byte
// there costs two. T must hold no pointers. b.all is valid as long as b is reachable.
func newBlock[T any](n int) *block[T] {
	memory, err := unix.Mmap(-1, 0, n*int(unsafe.Sizeof(*new(T))), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return &block[T]{make([]T, n)}
	}
	b := &block[T]{unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n)}
	runtime.AddCleanup(b, func(memory []byte) { _ = unix.Munmap(memory) }, memory) // it is what Mmap gave
	return b
}
