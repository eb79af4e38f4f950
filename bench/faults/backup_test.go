package faults

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/load"
	"muniment.example/bench/system/systemtest"
	"muniment.example/control/backup"
	"muniment.example/control/rollback"
	"muniment.example/control/signing"
	"muniment.example/control/store"
	"muniment.example/gate"
	"muniment.example/gateway/api"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
)

// TestBackupUnderLoad backs up a service again and again, while 64 clients deliver
// and rights are suspended and packs sealed. Each backup holds what was
// acknowledged before it, restores, serves, and goes on.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	deliveries, err := load.Deliveries(50_000, 1, load.Profiles(), h.Rights)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	answered := make(chan struct{}, 1)
	posting := &load.Load{
		Addrs: []string{systemtest.HostPort(h.Client.API)}, Key: h.Client.Key, Clients: 64, Name: "load", Deliveries: deliveries,
		Pause: time.Duration(systemtest.Times(50, 0)) * time.Millisecond,
		Answered: func(int) {
			select {
			case answered <- struct{}{}:
			default:
			}
		},
	}
	var background sync.WaitGroup
	background.Go(func() { _, _ = posting.Run(ctx) }) // cut off on purpose
	// Control has something to say at every moment, too.
	background.Go(func() {
		for action := "suspend"; ctx.Err() == nil; {
			if h.Client.Do(ctx, "POST", "/v1/rights/"+h.Rights["DRONE"]+"/"+action, map[string]any{}, nil) == nil {
				action = map[string]string{"suspend": "resume", "resume": "suspend"}[action]
			}
		}
	})
	defer background.Wait()
	defer stop()
	<-answered

	type copied struct {
		to      string
		known   []string // receipts that were acknowledged before
		stopped string   // a right that was suspended before
	}
	var copies []copied
	for i, form := range []string{"one", "two.tar", "three"} {
		c := copied{to: filepath.Join(t.TempDir(), form), known: h.Receipts(20), stopped: []string{"CTV", "MOBILE", "AUDIO"}[i]}
		h.Move(c.stopped, "suspend")
		if i == 1 {
			h.Seal()
		}
		m := h.BackUp(c.to)
		require.NotEqual(t, "1.0.0", m.LogEnd)
		copies = append(copies, c)
	}
	stop()
	background.Wait()
	packs := systemtest.SealAndExport(t, h.Client)
	h.Stop()

	for i, c := range copies {
		other, made := h.Restored(c.to)
		require.NotEqual(t, made.Previous, made.Incarnation)
		other.Start()
		status, answer := other.Deliver(h.Client.Key, c.stopped)
		require.Equal(t, http.StatusConflict, status, answer)
		other.Receipts(20)
		total := other.Metered()
		later := systemtest.SealAndExport(t, other.Client)
		other.Stop()
		systemtest.VerifyPacks(t, other.Data, later)
		found := inLog(t, other.Data)
		require.Len(t, found, total, "log and warehouse agree")
		for _, id := range c.known {
			require.Equal(t, 1, found[id])
		}
		require.Contains(t, other.SystemEvents()["database.restored"], `"missed":0`, "the cut is where the database was copied")
		t.Logf("backup %d: %d receipts, %d packs, log to %s", i+1, total, made.Packs, made.LogEnd)
	}
	systemtest.VerifyPacks(t, h.Data, packs)
}

// TestBackupDuringRotation rotates the node's key while 16 clients deliver, each time
// after a backup has copied the database and before it copies the log: so the log
// holds receipts of a key that the copy does not know, often before the event that
// tells of it. Each backup restores to a service that seals.
func TestBackupDuringRotation(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	load := systemtest.StartLoad(t, h.Client, h.Rights)
	load.Await(systemtest.Times(50, 200))
	var copies []string
	for i := range 2 {
		to := filepath.Join(t.TempDir(), fmt.Sprint(i))
		_, err := backup.Backup{Data: h.Data, To: to, OpenLog: func(dir string) (backup.LogCopier, error) {
			for range 2 {
				load.Await(systemtest.Times(30, 100))
				systemtest.Command(h.T, "signing-key", "rotate", "--data", h.Data, systemtest.Current(t, h.Data, keydir.PurposeReceipt))
			}
			return segment.OpenReader(dir)
		}}.Run(t.Context())
		require.NoError(t, err)
		copies = append(copies, to)
	}
	load.End()
	h.Stop()
	for _, to := range copies {
		h.GoesOn(to)
	}
}

// TestBackupBeforeTheNewKeyIsTold is the same with the order of things fixed: the
// new key has signed before the log tells of it.
func TestBackupBeforeTheNewKeyIsTold(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(5)
	h.Stop()
	quiet := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(h.Data, "control.db"), Logger: quiet})
	require.NoError(t, err)
	defer db.Close()
	keys, err := signing.New(t.Context(), signing.Config{DB: db, Dir: filepath.Join(h.Data, "keys"), Logger: quiet})
	require.NoError(t, err)
	signer := newSigner(t, "nod_a")
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := signing.Admit(t.Context(), tx, signer.Node, keydir.PurposeReceipt, signer.Key.Public().(ed25519.PublicKey), store.BySystem())
		return err
	}))
	log, err := segment.Open(segment.Config{Dir: filepath.Join(h.Data, "log"), Log: quiet})
	require.NoError(t, err)
	defer log.Close()
	var known sealer.RecordedDelivery
	first, end, err := log.Bounds(t.Context(), segment.Partition)
	require.NoError(t, err)
	require.NoError(t, log.Scan(t.Context(), first, end, func(e sealer.Entry) error {
		if d, err := sealer.ReadDelivery(bytes.Clone(e.Event)); err == nil {
			known = d
		}
		return nil
	}))
	deliver := func(seq uint64) {
		at := time.Now().UTC().Truncate(time.Millisecond)
		event, err := signer.SealDelivery(nil, &sealer.Delivery{
			TenantID: known.Event.TenantID, Actor: known.Event.Actor, RightID: known.RightID, RightRevision: known.RightRevision,
			BasisID: known.BasisID, Substrate: gate.DOOH,
			Metering: gate.Metering{Metered: true, Reason: gate.ReasonMetered, Basis: gate.BasisGross, QuantityMs: 1, AttentionMs: -1},
		}, &sealer.Receipt{
			ReceiptID: api.NewID(api.PrefixReceipt, at), SpatialAnchorID: "a", IssuedAt: at, RenderedAt: at, DwellMs: 1,
			Nonce: base64.RawURLEncoding.EncodeToString(make([]byte, 16)),
		})
		require.NoError(t, err)
		e, err := sealer.ParseEvent(event)
		require.NoError(t, err)
		_, err = log.Append(t.Context(), &sealer.Record{TenantID: e.TenantID, EventID: e.EventID, Node: signer.Node, Epoch: 1, Seq: seq, Event: event})
		require.NoError(t, err)
	}
	deliver(1)
	require.NoError(t, rollback.SetHighWater(t.Context(), db, end))

	to := filepath.Join(t.TempDir(), "backup")
	_, err = backup.Backup{Data: h.Data, To: to, OpenLog: func(dir string) (backup.LogCopier, error) {
		next := newSigner(t, signer.Node)
		public := base64.RawURLEncoding.EncodeToString(next.Key.Public().(ed25519.PublicKey))
		sign := func(by *sealer.Signer) string {
			signature, err := by.Key.Sign(nil, api.EnrolText(signer.Node, public), crypto.Hash(0))
			require.NoError(t, err)
			return base64.RawURLEncoding.EncodeToString(signature)
		}
		_, err := keys.EnrolKey(t.Context(), signer.Node, api.EnrolRequest{PublicKey: public, Signature: sign(next), Voucher: sign(signer), NotBefore: time.Now()})
		require.NoError(t, err)
		signer = next
		deliver(2)
		return segment.OpenReader(dir)
	}}.Run(t.Context())
	require.NoError(t, err)
	require.NoError(t, log.Close())
	require.NoError(t, db.Close())
	require.Equal(t, 6, h.GoesOn(to), "what was signed by the key of that time")
}

// newSigner makes a key of a node.
func newSigner(t *testing.T, nodeID string) *sealer.Signer {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	return &sealer.Signer{KeyID: keydir.KeyID(public), Node: nodeID, Key: private}
}

// TestBackupNamesAMissingPack: a backup that lacks a pack would be none.
func TestBackupNamesAMissingPack(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(1)
	h.Metered()
	h.Stop()
	files, err := filepath.Glob(filepath.Join(h.Data, "packs", "*", "*.ndjson.zst"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(files[0]))
	to := filepath.Join(t.TempDir(), "backup")
	require.Contains(t, systemtest.Fails(t, "backup", "--data", h.Data, "--to", to), files[0])
	require.NoDirExists(t, to)
	require.NoDirExists(t, to+".partial")
}

// TestBackupWithoutKeys: the restored service must not make itself another root.
func TestBackupWithoutKeys(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(3)
	to := filepath.Join(t.TempDir(), "backup.tar")
	h.BackUp(to, "--without-keys")
	h.Stop()
	require.NotContains(t, string(systemtest.ReadFile(t, to)), "PRIVATE KEY")
	other, made := h.Restored(to)
	require.False(t, made.Keys)
	require.Contains(t, other.Refused(), "root key is offline")
	require.NoError(t, os.RemoveAll(filepath.Join(other.Data, "keys")))
	require.NoError(t, os.CopyFS(filepath.Join(other.Data, "keys"), os.DirFS(filepath.Join(h.Data, "keys"))))
	require.NoError(t, filepath.WalkDir(filepath.Join(other.Data, "keys"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chmod(name, 0o600)
		}
		return err
	}))
	other.Start()
	other.Receipts(3)
	require.Equal(t, 6, other.Metered())
}

// TestBackupLeavesTheRootOut: what can't be revoked is on no tape by accident, and is
// not missed by a restored service.
func TestBackupLeavesTheRootOut(t *testing.T) {
	t.Parallel()
	h := systemtest.NewService(t)
	h.Receipts(3)
	take := func(args ...string) (to, said string) {
		to = filepath.Join(t.TempDir(), "backup")
		out, err := exec.CommandContext(t.Context(), "muniment", append([]string{"backup", "--data", h.Data, "--to", to}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return to, string(out)
	}
	plain, said := take()
	require.Contains(t, said, "keys/root.skey left out")
	require.NoFileExists(t, filepath.Join(plain, "keys", "root.skey"))
	full, said := take("--with-root")
	require.NotContains(t, said, "left out")
	require.Equal(t, systemtest.ReadFile(t, filepath.Join(h.Data, "keys", "root.skey")), systemtest.ReadFile(t, filepath.Join(full, "keys", "root.skey")))
	_, err := backup.Backup{Data: h.Data, To: filepath.Join(t.TempDir(), "x"), WithoutKeys: true, WithRoot: true}.Run(t.Context())
	require.ErrorContains(t, err, "without the keys")
	for i, said := range []string{
		systemtest.Command(h.T, "backup", "--data", h.Data, "--to", filepath.Join(t.TempDir(), "x"), "--json"),
		string(systemtest.ReadFile(t, filepath.Join(full, "manifest.json"))),
	} {
		var m backup.Manifest
		require.NoError(t, json.Unmarshal([]byte(said), &m))
		require.Equal(t, i == 1, m.Root)
	}
	require.NoError(t, os.Remove(filepath.Join(h.Data, "keys", "root.skey")))
	_, said = take()
	require.NotContains(t, said, "left out", "it is elsewhere already")
	h.Stop()
	require.Equal(t, 3, h.GoesOn(plain))
}
