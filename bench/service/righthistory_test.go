package service

import (
	"testing"

	"muniment/bench/system/storytest"
	"muniment/bench/system/systemtest"
)

func TestRightHistory(t *testing.T) { storytest.RightHistory(t, systemtest.Shared(t)) }
