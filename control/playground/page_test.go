package playground

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/assets"
	"muniment.example/control/assets/assetstest"
	"muniment.example/control/sandbox"
)

func page(t *testing.T) *assets.Page {
	t.Helper()
	s, err := New(Config{Visitors: new(sandbox.Service), Feed: NewFeed()})
	require.NoError(t, err)
	return s.page
}

func TestEveryFileIsReached(t *testing.T) {
	assetstest.EveryFileIsReached(t, page(t), Path)
}

func TestPolicyHolds(t *testing.T) {
	assetstest.PolicyHolds(t, page(t), Path)
}
