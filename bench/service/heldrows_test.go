package service

import (
	"testing"

	"muniment.example/bench/system/storytest"
	"muniment.example/bench/system/systemtest"
)

// TestHeldRowsAreDelivered sends rows before their mapping is there: they wait, and are
// delivered once it is, each once, also if they are sent again. A player that is remapped has its
// plays before the change on the old right and those after it on the new one, whatever the
// order in which they come. The key that sent them has been rotated meanwhile.
func TestHeldRowsAreDelivered(t *testing.T) { storytest.HeldRows(t, systemtest.Shared(t), true) }

// TestPlayersPost: a Broadsign player posts by itself.
func TestPlayersPost(t *testing.T) { storytest.Players(t, systemtest.Shared(t)) }
