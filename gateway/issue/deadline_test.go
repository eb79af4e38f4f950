package issue

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDeadlines: a delivery that begins gets the whole time, at most a sixteenth more, and
// none gets a deadline that has passed.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := deadlines{after: 16 * time.Second}
		var made sync.Map
		var ending sync.WaitGroup
		for range 100 {
			ending.Go(func() {
				began := time.Now()
				d := limits.begin(began)
				made.Store(d, true)
				require.NoError(t, d.Err())
				<-d.Done()
				require.ErrorIs(t, d.Err(), context.DeadlineExceeded)
				at, ok := d.Deadline()
				require.True(t, ok)
				require.Equal(t, time.Now(), at)
				require.GreaterOrEqual(t, at.Sub(began), 16*time.Second)
				require.LessOrEqual(t, at.Sub(began), 17*time.Second)
			})
			time.Sleep(100 * time.Millisecond)
		}
		ending.Wait()
		n := 0
		made.Range(func(any, any) bool { n++; return true })
		require.Equal(t, 10, n, "one a second")
	})
}
