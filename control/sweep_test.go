package control

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/control/node"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/control/tenant"
)

// TestSweepGoesOn through failures, each run of which is logged once.
func TestSweepGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &Control{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		ctx, stop := context.WithCancel(t.Context())
		began, did := time.Now(), 0
		require.NoError(t, c.repeat(ctx, Sweep{Name: "broom", Every: time.Second, Do: func(context.Context) error {
			did++
			require.Equal(t, time.Duration(did-1)*time.Second, time.Since(began))
			switch did {
			case 2, 3, 5:
				return errors.New("no broom")
			case 6:
				stop()
				return ctx.Err() // which is no failure
			}
			return nil
		}}))
		require.Equal(t, 6, did)
		var said []string
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, "level=")
			said = append(said, strings.TrimSpace(line))
		}
		failed := `ERROR msg="a sweep failed, retrying" sweep=broom err="no broom"`
		require.Equal(t, []string{failed, `INFO msg="a sweep works again" sweep=broom`, failed}, said)
	})
}

// TestSweepWithoutATime would end the process once it is begun.
func TestSweepWithoutATime(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	for _, s := range []Sweep{{Name: "broom", Do: nothing}, {Name: "broom", Every: -1, Do: nothing}, {Name: "broom", Every: 1}} {
		_, err := New(Config{DB: new(store.DB), Keys: new(signing.Service), Nodes: new(node.Service), Tenants: new(tenant.Service), Log: struct{ store.Appender }{}, Sweeps: []Sweep{s}})
		require.EqualError(t, err, `cannot open control: the sweep "broom" has no Every or no Do`)
	}
}
