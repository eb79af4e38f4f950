// Package service tests the embedded service, muniment up, as its callers, operators and readers
// meet it: what its pages show, what its document says, what each resource does.
package service

import (
	"testing"

	"muniment.example/bench/system/systemtest"
)

func TestMain(m *testing.M) { systemtest.Main(m) }
