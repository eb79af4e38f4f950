package upload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"

	"muniment.example/gateway/remote"
)

const (
	// attemptTime is how long one attempt may take.
	attemptTime = time.Minute
	// maxAnswer is the longest answer that is read.
	maxAnswer = 64 << 20
)

// ofBatch says that the request was refused for what was in it.
func ofBatch(r *remote.Refusal) bool {
	switch r.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// deliver sends a batch until it is answered, and writes what of its rows became. An error ends
// the run.
func (u *Uploader) deliver(ctx context.Context, b *batch) error {
	var began time.Time // of trouble
	for attempt := 0; ; attempt++ {
		if ctx.Err() != nil || b.file.refused() {
			return nil // Run says why, and of the file find does
		}
		a, err := u.post(ctx, b)
		if err == nil {
			left, err := u.settle(b, a, u.isOver(began))
			if err != nil || !left {
				return err
			}
		}
		var r *remote.Refusal
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			err = errRowsBusy
		case !errors.As(err, &r) || r.Passing():
		case ofBatch(r): // of its file nothing more is sent: it would fare no better
			b.file.refuse(r)
			return nil
		default:
			return r
		}
		if began.IsZero() {
			began = time.Now()
		}
		if u.isOver(began) {
			return fmt.Errorf("given up after %s: %w", u.cfg.RetryFor, err)
		}
		u.progress.trouble(err)
		if !remote.Wait(ctx, attempt, r, u.cfg.RetryFor-time.Since(began)) {
			return fmt.Errorf("the service asks to wait for %s, which is longer than is left of %s; run the same command again then: %w", r.After, u.cfg.RetryFor, err)
		}
	}
}

// isOver says whether trouble that began at some time has lasted as long as a batch is tried.
func (u *Uploader) isOver(began time.Time) bool {
	return !began.IsZero() && time.Since(began) >= u.cfg.RetryFor
}

var errRowsBusy = errors.New("the service can't take some rows now")

// settle writes what became of the rows. It leaves those in the batch that the service rejects
// for a passing reason, to be sent again, and says whether there are any; the last time they are
// rejected, until the next run.
func (u *Uploader) settle(b *batch, a *answer, last bool) (left bool, err error) {
	lines, err := b.results(a)
	if err != nil {
		return false, err
	}
	settled := b.rows
	if !last && slices.ContainsFunc(lines, func(l result) bool { return l.passing() }) {
		final, rows := lines[:0:0], b.rows[:0:0]
		settled = nil
		for i := range lines {
			if lines[i].passing() {
				rows = append(rows, b.rows[i])
			} else {
				final, settled = append(final, lines[i]), append(settled, b.rows[i])
			}
		}
		b.rows, lines, left = rows, final, true
	}
	if err := b.file.log.write(lines); err != nil {
		return false, err
	}
	for i := range settled {
		settled[i].settle(lines[i].Status != statusRejected)
	}
	for _, warning := range a.Data.Warnings {
		u.progress.warn(warning)
	}
	u.progress.count(lines)
	if !left {
		u.progress.Bytes.Add(b.bytes)
	}
	return left, nil
}

// probe sends an empty batch, so that a wrong key fails even if nothing is left to send.
func (u *Uploader) probe(ctx context.Context) error {
	_, err := u.post(ctx, &batch{source: &source{mediaType: "application/json", body: jsonBody(nil)}})
	if r, ok := errors.AsType[*remote.Refusal](err); ok && !r.Passing() && !ofBatch(r) {
		return r
	}
	return nil
}

// settle says that it is known what becomes of the row: whether it was taken.
func (r *row) settle(taken bool) {
	if r.settled != nil {
		r.settled(taken)
	}
}

// post makes one attempt.
func (u *Uploader) post(ctx context.Context, b *batch) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	var body bytes.Buffer
	pack, err := gzip.NewWriterLevel(&body, gzip.BestSpeed)
	if err == nil {
		_, err = pack.Write(b.source.body(nil, b.rows))
	}
	if err == nil {
		err = pack.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot pack a batch: %w", err)
	}
	target := u.endpoint
	if b.source.query != nil {
		target += "?" + b.source.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, &body)
	if err != nil {
		return nil, fmt.Errorf("cannot make a request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+u.cfg.Key)
	req.Header.Set("Content-Type", b.source.mediaType)
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := u.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the service can't be reached: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("cannot read the answer of the service: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, remote.ReadRefusal(resp, text)
	}
	a := new(answer)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("cannot read the answer of the service: %w", err)
	}
	return a, nil
}
