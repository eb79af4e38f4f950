package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"muniment.example/bench/measure"
	"muniment.example/bench/system"
	"muniment.example/pipeline"
)

// seal seals everything: the first call alone, to measure what a pack takes, the others while
// deliveries go on.
func (s *Scale) seal(ctx context.Context) error {
	before, err := s.packed(ctx)
	if err != nil {
		return err
	}
	calls := &sealing{client: s.tenant.Client}
	begin := time.Now()
	more, err := calls.once(ctx)
	if err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := s.packed(ctx)
	if err != nil {
		return err
	}
	const pack = 100_000
	if after > before {
		s.find("a pack of 100,000 sealed", " s", took.Seconds()*pack/float64(after-before), 5, fmt.Sprintf("%s events in a first call of %.1f s", measure.Count(after-before), took.Seconds()))
	}
	err = s.slowdown(ctx, "while all is sealed", 3, func(ctx context.Context) error {
		for more && err == nil {
			more, err = calls.once(ctx)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.find("calls of seal answered 503", "", float64(calls.refused), 0, fmt.Sprintf("of %d, the longest took %.1f s", calls.made, calls.longest.Seconds()))
	sealed, err := s.packed(ctx)
	if err != nil {
		return err
	}
	s.find("events acknowledged before the first call and in no pack after the last", "", max(0, float64(s.Receipts-sealed)), 0, measure.Count(sealed)+" sealed")
	return nil
}

// sealing are the calls that seal up to where the log ended at the first.
type sealing struct {
	client        system.Client
	upTo          string
	made, refused int
	longest       time.Duration
}

// once calls once, and says whether more is left.
func (c *sealing) once(ctx context.Context) (more bool, err error) {
	const most = 200 // calls
	body := map[string]any{}
	if c.upTo != "" {
		body["upTo"] = c.upTo
	}
	begin := time.Now()
	status, text, err := c.client.Request(ctx, http.MethodPost, "/v1/proof-packs/seal", body)
	c.longest = max(c.longest, time.Since(begin))
	if c.made++; err != nil || c.made > most {
		return false, errors.Join(err, ctx.Err())
	}
	var answer struct {
		Data struct {
			UpTo string
			More bool
		}
	}
	switch status {
	case http.StatusServiceUnavailable:
		c.refused++
		return true, pipeline.Pause(ctx, time.Second)
	case http.StatusOK:
		err := json.Unmarshal(text, &answer)
		c.upTo = answer.Data.UpTo
		return answer.Data.More, err
	default:
		return false, fmt.Errorf("seal answered %d: %s", status, text)
	}
}

// packed counts the events in packs.
func (s *Scale) packed(ctx context.Context) (n int, err error) {
	packs, err := s.packs(ctx)
	for _, p := range packs {
		n += p.Count
	}
	return n, err
}

type packed struct {
	ID    string
	Count int
}

func (s *Scale) packs(ctx context.Context) ([]packed, error) {
	var list struct{ Packs []packed }
	err := s.tenant.Client.Do(ctx, "GET", "/v1/proof-packs?limit=500", nil, &list)
	return list.Packs, err
}

// verify measures the memory of both verifiers.
func (s *Scale) verify(ctx context.Context) error {
	packs, err := s.packs(ctx)
	if err != nil {
		return err
	}
	if len(packs) == 0 {
		return errors.New("nothing was sealed")
	}
	root := filepath.Join(s.data(), "keys", "root.vkey")
	var files []string
	leaves := 0
	for _, p := range packs {
		file := filepath.Join(s.Dir, p.ID+".ndjson")
		if err := s.tenant.Client.Download(ctx, "/v1/proof-packs/"+p.ID+"/bundle", file); err != nil {
			return err
		}
		files, leaves = append(files, file), leaves+p.Count
	}
	check := func(what string, bound float64, leaves int, name string, arg ...string) error {
		begin := time.Now()
		var peak int64
		out, err := s.command(ctx, &peak, name, arg...)
		if err != nil {
			return fmt.Errorf("%s: %w: %s", what, err, out)
		}
		s.find(what, " MB", float64(peak)/1e6, bound, fmt.Sprintf("%s leaves in %.0f s", measure.Count(leaves), time.Since(begin).Seconds()))
		return nil
	}
	if err := check("peak memory of verify, the chain", 200, leaves, s.Exe, append([]string{"verify", "--root", root}, files...)...); err != nil {
		return err
	}
	if s.Python == "" {
		fmt.Fprintln(s.Out, "the other verifier was not measured: no --python")
		return nil
	}
	return check("peak memory of the Python verifier, a pack", 300, packs[0].Count, s.Python, "sealer/independent/verify.py", "--root", root, files[0])
}

// command runs one, which gets SIGTERM when ctx ends, and notes the most memory that it
// held.
func (s *Scale) command(ctx context.Context, peak *int64, name string, arg ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, arg...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &out, os.Environ()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() {
		watched <- system.Every(watching, 20*time.Millisecond, func() error {
			if peak != nil {
				*peak = max(*peak, measure.PeakOf(cmd.Process.Pid))
			}
			return nil
		})
	}()
	err := cmd.Wait()
	stop()
	return out.Bytes(), errors.Join(err, <-watched)
}
