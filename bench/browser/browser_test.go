//go:build browser

// Package browser visits the pages in Chromium (make test-playground).
package browser

import (
	"testing"

	"muniment.example/bench/system/systemtest"
)

func TestMain(m *testing.M) { systemtest.Main(m) }
