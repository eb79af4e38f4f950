package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"muniment.example/bench/load"
	"muniment.example/bench/system"
	"muniment.example/pipeline"
)

// Caller is a tenant's client, and every answer that its deliveries were given.
type Caller struct {
	Client  system.Client
	Answers []load.Answer
}

// Balance is what the books of a cluster say when all of them agree.
type Balance struct {
	// Acknowledged receipts are in the log, in the warehouse and in the packs, each once
	// and as the callers hold it.
	Acknowledged int
	// Unanswered receipts are there besides: each was recorded and its gateway killed before
	// it could answer, so the delivery was sent again. Repeated ones were acknowledged by
	// another gateway than the one that had acknowledged the delivery before. The metering
	// has as many duplicates as both together.
	Unanswered, Repeated int
	// Copies stand in the log besides, of records whose acknowledgement was lost.
	Copies int
	// Retried deliveries were sent more than once; Replayed is how many were answered
	// with what an earlier attempt had been recorded as.
	Retried, Replayed int
	// Metered, Suppressed and QuantityMs are the metering's, and the sums of the callers'
	// answers.
	Metered, Suppressed, QuantityMs int64
}

// Audit seals everything on a cluster and holds log, warehouse, verified packs and metering against
// the answers of the callers, which must be all of the cluster's deliveries. It waits
// for spools and loaders until ctx is done, and fails when the books disagree.
func Audit(ctx context.Context, c *system.Cluster, log pipeline.Reader, callers ...Caller) (*Balance, error) {
	b := &books{scaled: true, clients: newTally(), warehouse: receipts{}, packs: receipts{}}
	for i, caller := range callers {
		if err := collect(ctx, c, b, fmt.Sprintf("packs%d", i), caller); err != nil {
			return nil, err
		}
	}
	var err error
	if b.log, err = receiptsInLog(ctx, log); err != nil {
		return nil, err
	}
	b.copies = b.log.collapse()
	var unequal []error
	for _, e := range b.balance() {
		if e.fault != "" {
			unequal = append(unequal, fmt.Errorf("%s %s: %s", strings.TrimSpace(e.what), e.number, e.fault))
		}
	}
	if len(unequal) > 0 {
		return nil, errors.Join(append(unequal, errUnequal)...)
	}
	return &Balance{
		Acknowledged: len(b.clients.acknowledged), Unanswered: int(b.metering.Duplicates) - b.clients.repeated, Repeated: b.clients.repeated, Copies: b.copies,
		Retried: b.clients.retried, Replayed: b.clients.replayed,
		Metered: b.metering.Metered, Suppressed: b.metering.Suppressed, QuantityMs: b.metering.QuantityMs,
	}, nil
}

// collect adds one caller's part to the books.
func collect(ctx context.Context, c *system.Cluster, b *books, folder string, caller Caller) error {
	if err := b.clients.add(caller.Answers); err != nil {
		return err
	}
	b.answers = append(b.answers, caller.Answers...)
	if err := awaitSealed(ctx, caller.Client); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.Dir, folder)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	d := &Demo{Exe: c.Exe, Dir: dir, Out: &said}
	files, err := d.download(ctx, caller.Client)
	if err != nil {
		return err
	}
	if err := d.verify(ctx, c.Root(), files); err != nil {
		return fmt.Errorf("%w:\n%s", err, &said)
	}
	packs, err := receiptsInPacks(files)
	if err != nil {
		return err
	}
	warehouse, metering, err := receiptsInWarehouse(ctx, caller.Client)
	if err != nil {
		return err
	}
	b.packs.join(packs)
	b.warehouse.join(warehouse)
	b.metering = b.metering.plus(metering)
	return nil
}

// awaitSealed seals until everything is in a pack: until no spool holds anything back
// and the warehouse has come as far as the log. A request is sent again while the service can't answer it.
func awaitSealed(ctx context.Context, client system.Client) error {
	var sealed struct {
		UpTo    string
		More    bool
		Pending []struct {
			NodeID, Source string
			Count          int64
		}
	}
	for body := map[string]any{}; ; {
		err := client.Do(ctx, "POST", "/v1/proof-packs/seal", body, &sealed)
		away, ok := errors.AsType[*system.Refused](err)
		switch {
		case err == nil && sealed.More:
			body = map[string]any{"upTo": sealed.UpTo}
			continue
		case err == nil && len(sealed.Pending) == 0:
			return nil
		case err == nil:
			clear(body) // what is in spools comes behind
		case !ok || away.Status != http.StatusServiceUnavailable:
			return err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("cannot seal everything, pending is %v: %w", sealed.Pending, errors.Join(err, ctx.Err()))
		}
	}
}
