package service

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

func TestRightHistory(t *testing.T) { storytest.RightHistory(t, systemtest.Shared(t)) }
