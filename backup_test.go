package main

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
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench/load"
	"muniment/control/backup"
	"muniment/control/signing"
	"muniment/control/store"
	"muniment/gate"
	"muniment/gateway/api"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// backUp makes a backup of the service, which may be open.
func (s *service) backUp(to string, args ...string) (m backup.Manifest) {
	s.t.Helper()
	out := muniment(s.t, append([]string{"backup", "--data", s.data, "--to", to, "--json"}, args...)...)
	require.NoError(s.t, json.Unmarshal([]byte(out), &m))
	return m
}

// restored makes another service of a backup, not yet open. Nobody was erased since, unless args say so.
func (s *service) restored(from string, args ...string) (*service, backup.Restored) {
	s.t.Helper()
	if !slices.Contains(args, "--tombstones") {
		args = append(args, "--tombstones", os.DevNull)
	}
	other := s.elsewhere(filepath.Join(s.t.TempDir(), "restored"))
	out := muniment(s.t, append([]string{"restore", "--from", from, "--data", other.data, "--json"}, args...)...)
	return other, parse[backup.Restored](s.t, out)
}

// restore is a restore within this process.
func restore(from, data string, expect ...string) (*backup.Restored, error) {
	return backup.Restore{From: from, Data: data, Expect: expect, Continue: continueLog, Replays: replays(), Older: olderEvents, Tombstones: tombstones([]string{os.DevNull})}.Run(context.Background())
}

// TestBackupUnderLoad backs up a service again and again, while 64 clients deliver
// and rights are suspended and packs sealed. Each backup holds what was
// acknowledged before it, restores, serves, and goes on.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	h := newService(t)
	deliveries, err := load.Deliveries(50_000, 1, load.Profiles(), h.rights)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	answered := make(chan struct{}, 1)
	posting := &load.Load{
		Addrs: []string{hostPort(h.client.API)}, Key: h.client.Key, Clients: 64, Name: "load", Deliveries: deliveries,
		Pause: time.Duration(times(50, 0)) * time.Millisecond,
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
			if h.client.Do(ctx, "POST", "/v1/rights/"+h.rights["DRONE"]+"/"+action, map[string]any{}, nil) == nil {
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
		c := copied{to: filepath.Join(t.TempDir(), form), known: h.receipts(20), stopped: []string{"CTV", "MOBILE", "AUDIO"}[i]}
		h.move(c.stopped, "suspend")
		if i == 1 {
			h.seal()
		}
		m := h.backUp(c.to)
		require.NotEqual(t, "1.0.0", m.LogEnd)
		copies = append(copies, c)
	}
	stop()
	background.Wait()
	packs := sealAndExport(t, h.client)
	h.stop()

	for i, c := range copies {
		other, made := h.restored(c.to)
		require.NotEqual(t, made.Previous, made.Incarnation)
		other.start()
		status, answer := other.deliver(h.client.Key, c.stopped)
		require.Equal(t, http.StatusConflict, status, answer)
		other.receipts(20)
		total := other.metered()
		later := sealAndExport(t, other.client)
		other.stop()
		verifyPacks(t, other.data, later)
		found := inLog(t, other.data)
		require.Len(t, found, total, "log and warehouse agree")
		for _, id := range c.known {
			require.Equal(t, 1, found[id])
		}
		require.Contains(t, other.systemEvents()["database.restored"], `"missed":0`, "the cut is where the database was copied")
		t.Logf("backup %d: %d receipts, %d packs, log to %s", i+1, total, made.Packs, made.LogEnd)
	}
	verifyPacks(t, h.data, packs)
}

// TestBackupDuringRotation rotates the node's key while 16 clients deliver, each time
// after a backup has copied the database and before it copies the log: so the log
// holds receipts of a key that the copy does not know, often before the event that
// tells of it. Each backup restores to a service that seals.
func TestBackupDuringRotation(t *testing.T) {
	t.Parallel()
	h := newService(t)
	load := startLoad(t, h.client, h.rights)
	load.await(times(50, 200))
	var copies []string
	for i := range 2 {
		to := filepath.Join(t.TempDir(), fmt.Sprint(i))
		_, err := backup.Backup{Data: h.data, To: to, OpenLog: func(dir string) (backup.LogCopier, error) {
			for range 2 {
				load.await(times(30, 100))
				muniment(h.t, "signing-key", "rotate", "--data", h.data, current(t, h.data, sealer.PurposeReceipt))
			}
			return segment.OpenReader(dir)
		}}.Run(t.Context())
		require.NoError(t, err)
		copies = append(copies, to)
	}
	load.end()
	h.stop()
	for _, to := range copies {
		h.goesOn(to)
	}
}

// goesOn restores a backup to a service that delivers, seals and is proven. It returns
// how many receipts were in the backup.
func (s *service) goesOn(backup string) (receipts int) {
	s.t.Helper()
	other, _ := s.restored(backup)
	require.NoDirExists(s.t, filepath.Join(other.data, "node"), "it joins anew")
	other.start()
	require.DirExists(s.t, filepath.Join(other.data, "node"))
	receipts = other.metered()
	other.receipts(3)
	require.Equal(s.t, receipts+3, other.metered())
	packs := sealAndExport(s.t, other.client)
	other.stop()
	verifyPacks(s.t, other.data, packs)
	return receipts
}

// TestBackupBeforeTheNewKeyIsTold is the same with the order of things fixed: the
// new key has signed before the log tells of it.
func TestBackupBeforeTheNewKeyIsTold(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.receipts(5)
	h.stop()
	quiet := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(h.data, "control.db"), Logger: quiet})
	require.NoError(t, err)
	defer db.Close()
	keys, err := signing.New(t.Context(), signing.Config{DB: db, Dir: filepath.Join(h.data, "keys"), Logger: quiet})
	require.NoError(t, err)
	signer := newSigner(t, "nod_a")
	require.NoError(t, db.Change(t.Context(), func(tx *store.Tx) error {
		_, err := signing.Admit(t.Context(), tx, signer.Node, sealer.PurposeReceipt, signer.Key.Public().(ed25519.PublicKey), store.BySystem())
		return err
	}))
	log, err := segment.Open(segment.Config{Dir: filepath.Join(h.data, "log"), Log: quiet})
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
	require.NoError(t, db.SetHighWater(t.Context(), end))

	to := filepath.Join(t.TempDir(), "backup")
	_, err = backup.Backup{Data: h.data, To: to, OpenLog: func(dir string) (backup.LogCopier, error) {
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
	require.Equal(t, 6, h.goesOn(to), "what was signed by the key of that time")
}

// newSigner makes a key of a node.
func newSigner(t *testing.T, nodeID string) *sealer.Signer {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	return &sealer.Signer{KeyID: sealer.KeyID(public), Node: nodeID, Key: private}
}

// TestBackupNamesAMissingPack: a backup that lacks a pack would be none.
func TestBackupNamesAMissingPack(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.receipts(1)
	h.metered()
	h.stop()
	files, err := filepath.Glob(filepath.Join(h.data, "packs", "*", "*.ndjson.zst"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(files[0]))
	to := filepath.Join(t.TempDir(), "backup")
	require.Contains(t, fails(t, "backup", "--data", h.data, "--to", to), files[0])
	require.NoDirExists(t, to)
	require.NoDirExists(t, to+".partial")
}

// TestBackupWithoutKeys: the restored service must not make itself another root.
func TestBackupWithoutKeys(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.receipts(3)
	to := filepath.Join(t.TempDir(), "backup.tar")
	h.backUp(to, "--without-keys")
	h.stop()
	require.NotContains(t, string(read(t, to)), "PRIVATE KEY")
	other, made := h.restored(to)
	require.False(t, made.Keys)
	require.Contains(t, other.refused(), "root key is offline")
	require.NoError(t, os.RemoveAll(filepath.Join(other.data, "keys")))
	require.NoError(t, os.CopyFS(filepath.Join(other.data, "keys"), os.DirFS(filepath.Join(h.data, "keys"))))
	require.NoError(t, filepath.WalkDir(filepath.Join(other.data, "keys"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chmod(name, 0o600)
		}
		return err
	}))
	other.start()
	other.receipts(3)
	require.Equal(t, 6, other.metered())
}

// TestBackupLeavesTheRootOut: what can't be revoked is on no tape by accident, and is
// not missed by a restored service.
func TestBackupLeavesTheRootOut(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.receipts(3)
	take := func(args ...string) (to, said string) {
		to = filepath.Join(t.TempDir(), "backup")
		out, err := exec.CommandContext(t.Context(), "muniment", append([]string{"backup", "--data", h.data, "--to", to}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return to, string(out)
	}
	plain, said := take()
	require.Contains(t, said, "keys/root.skey left out")
	require.NoFileExists(t, filepath.Join(plain, "keys", "root.skey"))
	full, said := take("--with-root")
	require.NotContains(t, said, "left out")
	require.Equal(t, read(t, filepath.Join(h.data, "keys", "root.skey")), read(t, filepath.Join(full, "keys", "root.skey")))
	_, err := backup.Backup{Data: h.data, To: filepath.Join(t.TempDir(), "x"), WithoutKeys: true, WithRoot: true}.Run(t.Context())
	require.ErrorContains(t, err, "without the keys")
	for i, said := range []string{
		muniment(h.t, "backup", "--data", h.data, "--to", filepath.Join(t.TempDir(), "x"), "--json"),
		string(read(t, filepath.Join(full, "manifest.json"))),
	} {
		var m backup.Manifest
		require.NoError(t, json.Unmarshal([]byte(said), &m))
		require.Equal(t, i == 1, m.Root)
	}
	require.NoError(t, os.Remove(filepath.Join(h.data, "keys", "root.skey")))
	_, said = take()
	require.NotContains(t, said, "left out", "it is elsewhere already")
	h.stop()
	require.Equal(t, 3, h.goesOn(plain))
}
