package service

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

func TestExportOfAService(t *testing.T) {
	t.Parallel()
	storytest.Export(t, systemtest.NewService(t), systemtest.Times(12_000, 200_000))
}
