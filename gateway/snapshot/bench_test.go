package snapshot

import (
	"testing"

	"muniment.example/gateway/api"
)

// BenchmarkRight looks up a right that is cached, with an ancestor, as each delivery does.
func BenchmarkRight(b *testing.B) {
	s := newSource()
	s.put(api.Right{ID: rightOf(1), State: api.RightActive, Ancestors: []string{rightOf(2)}})
	v := newView(b, s, nil)
	follow(b, v)
	id, ctx := rightOf(1), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Right(ctx, "tnt_a", id); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkKey looks up a key that is cached.
func BenchmarkKey(b *testing.B) {
	s := newSource()
	s.putKey(api.Key{ID: "key_1", Label: "a"})
	v := newView(b, s, nil)
	follow(b, v)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Key(ctx, "key_1"); err != nil {
			b.Fatal(err)
		}
	}
}
