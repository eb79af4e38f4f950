package issue

import (
	"context"
	"time"
)

// retryLogEvery is how often a log that has failed is asked whether it takes records again: a node
// that isn't ready may get no delivery that would show it.
const retryLogEvery = time.Second

// CanSign returns the error that a delivery would get from the signer now; nil if there is a key.
func (i *Issuer) CanSign(ctx context.Context) error {
	_, _, release, err := i.acquire(ctx, i.cfg.Signer == nil, time.Time{})
	if err == nil {
		release()
		return nil
	}
	if why := i.keyTrouble.Err(); why != nil {
		return why // the caller of a delivery is not told which node and key
	}
	return err
}

// CanRecord returns why the last record was not made durable; nil if it was, or once the log is
// Writable again.
func (i *Issuer) CanRecord() error { return i.logTrouble.Err() }

// retryLog ends the log's outage once it takes records again.
func (i *Issuer) retryLog(ctx context.Context) {
	if i.logTrouble.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, i.cfg.Timeout)
	defer cancel()
	if i.cfg.Log.Writable(ctx) == nil {
		i.logTrouble.Ends(i.cfg.Logger, appendToLog)
	}
}
