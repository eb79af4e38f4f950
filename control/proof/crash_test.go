package proof

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer/merkle"
)

var errInjected = errors.New("injected")

// steps are all that a seal can be stopped before, in their order.
var steps = []string{"promise root", "sign", "create file", "write file", "sync file", "create pack", "commit", "answer"}

// TestCrashAtEveryStep kills the process before each step, opens everything again
// and goes on, with and without further events in between.
func TestCrashAtEveryStep(t *testing.T) {
	for _, step := range steps {
		for _, more := range []int{0, 3} {
			t.Run(step, func(t *testing.T) {
				t.Parallel()
				build(t).crashAt(step, more)
			})
		}
	}
}

func (h *fixture) crashAt(step string, more int) {
	h.Deliver(deliveries(5)...)
	h.seal()
	h.Deliver(deliveries(5)...)
	h.service.step = func(name string) error {
		if name == step {
			panic(errInjected)
		}
		return nil
	}
	require.PanicsWithError(h.T, errInjected.Error(), func() { h.seal() })
	h.reopen(Config{})
	sealed := len(h.packs())
	require.Equal(h.T, map[bool]int{true: 2, false: 1}[step == "answer"], sealed)
	h.entries()

	h.Deliver(deliveries(more)...)
	h.seal()
	require.Len(h.T, deliveriesOf(h.check()), 10+more)
	h.onlyOneRootOfASize()

	h.Advance(2 * draftAge)
	h.reopen(Config{})
	require.Len(h.T, h.files(), len(h.packs()), "what the crash left is swept")
	h.check()
}

// TestFailureAtEveryStep lets each step fail without a crash.
func TestFailureAtEveryStep(t *testing.T) {
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			h := build(t)
			h.Deliver(deliveries(5)...)
			h.service.step = func(name string) error {
				if name == step {
					return errInjected
				}
				return nil
			}
			_, err := h.service.sealWhole(t.Context(), tenant, operator)
			require.ErrorIs(t, err, errInjected)
			require.Equal(t, "internal error", api.From(err).Message)
			require.Len(t, h.files(), len(h.packs()), "a failed seal takes its file away")
			h.service.step = func(string) error { return nil }
			h.seal()
			require.Len(t, deliveriesOf(h.check()), 5)
			h.onlyOneRootOfASize()
		})
	}
}

// TestSweepSparesWhatMayBeAPack leaves a pack beyond the head, as a crash does, or
// a database that was restored from an older copy than the folder.
func TestSweepSparesWhatMayBeAPack(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(3)...)
	h.seal()
	h.Deliver(deliveries(3)...)
	require.NoError(t, os.WriteFile(h.service.folder.name(tenant, "ppk_notes"+packSuffix), []byte("mine"), 0o600))
	h.service.step = func(name string) error {
		if name == "commit" {
			panic(errInjected)
		}
		return nil
	}
	require.Panics(t, func() { h.seal() })
	require.Len(t, h.files(), 3)
	h.Advance(2 * draftAge)
	h.reopen(Config{})
	require.Len(t, h.files(), 3, "beyond the head nothing is swept")
	h.seal()
	h.reopen(Config{})
	require.Len(t, h.files(), 3, "two packs and a file that is none")
	require.Contains(t, h.files(), "ppk_notes"+packSuffix)
	h.check()
}

func TestOnlyOldDraftsAreSwept(t *testing.T) {
	h := build(t)
	h.Deliver(deliveries(1)...)
	h.seal()
	pack := h.files()[0]
	old := api.NewID(api.PrefixPack, h.Now()) + draftSuffix
	h.Advance(draftAge + time.Millisecond)
	young := api.NewID(api.PrefixPack, h.Now().Add(-draftAge)) + draftSuffix
	for _, name := range []string{old, young, "ppk_notes" + draftSuffix} {
		require.NoError(t, os.WriteFile(h.service.folder.name(tenant, name), nil, 0o600))
	}
	h.reopen(Config{})
	require.ElementsMatch(t, []string{pack, young, "ppk_notes" + draftSuffix}, h.files())
}

// TestForkIsRefused promises a root that this log will not have, as a crashed
// seal over another warehouse would have left it.
func TestForkIsRefused(t *testing.T) {
	for name, size := range map[string]uint64{"at the size of the pack": 5, "on the way to it": 3} {
		t.Run(name, func(t *testing.T) {
			h := build(t)
			h.Deliver(deliveries(5)...)
			require.NoError(t, h.DB.Change(t.Context(), func(tx *store.Tx) error {
				return promise(t.Context(), tx, tenant, size, merkle.LeafHash([]byte("another")), h.Now())
			}))
			_, err := h.service.sealWhole(t.Context(), tenant, operator)
			require.ErrorIs(t, err, errForked)
			require.Empty(t, h.packs())
			require.Empty(t, h.files())
		})
	}
}

func TestPromisedRootIsNotReplaced(t *testing.T) {
	h := build(t)
	promise := func(root string) error {
		return h.DB.Change(t.Context(), func(tx *store.Tx) error {
			return promise(t.Context(), tx, tenant, 7, merkle.LeafHash([]byte(root)), h.Now())
		})
	}
	require.NoError(t, promise("a"))
	require.NoError(t, promise("a"))
	require.ErrorIs(t, promise("b"), errForked)
	require.NoError(t, promise("a"))
}
