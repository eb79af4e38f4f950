package main

import (
	"testing"

	"muniment/bench/system/systemtest"
)

func TestMain(m *testing.M) { systemtest.Main(m) }
