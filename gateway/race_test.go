//go:build race

package gateway

// raced says that the race detector is on, which makes sync.Pool forget at random.
const raced = true
