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

	"muniment/control/node"
	"muniment/control/store"
	"muniment/control/tenant"
)

// TestJobGoesOn through failures, each run of which is told once.
func TestJobGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &Control{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		ctx, stop := context.WithCancel(t.Context())
		began, did := time.Now(), 0
		require.NoError(t, c.repeat(ctx, Job{Name: "sweep", Every: time.Second, Do: func(context.Context) error {
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
		failed := `ERROR msg="a job failed; it is tried again" job=sweep err="no broom"`
		require.Equal(t, []string{failed, `INFO msg="a job works again" job=sweep`, failed}, said)
	})
}

// TestJobWithoutATime would end the process once it is begun.
func TestJobWithoutATime(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	for _, j := range []Job{{Name: "sweep", Do: nothing}, {Name: "sweep", Every: -1, Do: nothing}, {Name: "sweep", Every: 1}} {
		_, err := New(Config{DB: new(store.DB), Nodes: new(node.Room), Tenants: new(tenant.Room), Log: struct{ store.Appender }{}, Jobs: []Job{j}})
		require.EqualError(t, err, `cannot open control: the job "sweep" has no Every or no Do`)
	}
}
