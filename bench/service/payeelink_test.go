package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

func TestPayeeLinksOfAService(t *testing.T) {
	t.Parallel()
	s := systemtest.NewService(t, "--log-level", "debug")
	storytest.PayeeLinks(t, s)
	require.Contains(t, s.Log(), "route=/payee ")
}
