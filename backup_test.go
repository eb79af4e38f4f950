package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment/bench"
	"muniment/control/node"
	"muniment/control/store"
	"muniment/gate"
	"muniment/gateway/api"
	"muniment/pipeline"
	"muniment/pipeline/segment"
	"muniment/sealer"
)

// muniment runs a command that has to succeed, and returns its standard output.
func (h *house) muniment(args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), h.exe, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(h.t, err, said.String())
	return string(out)
}

// backUp makes a backup of the house, which may be open.
func (h *house) backUp(to string, args ...string) (m store.Manifest) {
	h.t.Helper()
	out := h.muniment(append([]string{"backup", "--data", h.data, "--to", to, "--json"}, args...)...)
	require.NoError(h.t, json.Unmarshal([]byte(out), &m))
	return m
}

// restored makes another house of a backup, not yet open.
func (h *house) restored(from string, args ...string) (*house, store.Restored) {
	h.t.Helper()
	other := &house{t: h.t, exe: h.exe, data: filepath.Join(h.t.TempDir(), "restored"), client: h.client, rights: h.rights}
	out := h.muniment(append([]string{"restore", "--from", from, "--data", other.data, "--json"}, args...)...)
	var made store.Restored
	require.NoError(h.t, json.Unmarshal([]byte(out), &made))
	return other, made
}

// restore is a restore within this process.
func restore(from, data string, expect ...string) (*store.Restored, error) {
	return store.Restore{From: from, Data: data, Expect: expect, Continue: continueLog, Replays: replays()}.Run(context.Background())
}

// inLog counts the receipts in a data folder's log, by id.
func inLog(t *testing.T, data string) map[string]int {
	t.Helper()
	log, err := segment.OpenReader(filepath.Join(data, "log"))
	require.NoError(t, err)
	defer log.Close()
	first, end, err := log.Bounds(t.Context(), 0)
	require.NoError(t, err)
	found := map[string]int{}
	require.NoError(t, log.Scan(t.Context(), first, end, func(e sealer.Entry) error {
		parts, err := sealer.SplitDelivery(e.Event)
		if err != nil {
			return nil // an event of another type
		}
		var receipt struct{ ReceiptID string }
		err = json.Unmarshal(parts.Receipt, &receipt)
		found[receipt.ReceiptID]++
		return err
	}))
	return found
}

// TestBackupUnderLoad backs up a house again and again, while 64 clients deliver
// and rights are suspended and packs sealed. Each backup holds what was
// acknowledged before it, restores, serves, and goes on.
func TestBackupUnderLoad(t *testing.T) {
	h := newHouse(t)
	deliveries, err := bench.Deliveries(50_000, 1, bench.Profiles(), h.rights)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	answered := make(chan struct{}, 1)
	load := &bench.Load{
		Addrs: []string{hostPort(h.client.API)}, Key: h.client.Key, Clients: 64, Name: "load", Deliveries: deliveries,
		Answered: func(int) {
			select {
			case answered <- struct{}{}:
			default:
			}
		},
	}
	var background sync.WaitGroup
	background.Go(func() { _, _ = load.Run(ctx) }) // cut off on purpose
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
		require.NoError(t, h.client.Do(t.Context(), "POST", "/v1/rights/"+h.rights[c.stopped]+"/suspend", map[string]any{}, nil))
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
		verifyPacks(t, h.exe, other.data, later)
		found := inLog(t, other.data)
		require.Len(t, found, total, "log and warehouse agree")
		for _, id := range c.known {
			require.Equal(t, 1, found[id])
		}
		require.Contains(t, other.systemEvents()["database.restored"], `"missed":0`, "the cut is where the database was copied")
		t.Logf("backup %d: %d receipts, %d packs, log to %s", i+1, total, made.Packs, made.LogEnd)
	}
	verifyPacks(t, h.exe, h.data, packs)
}

// TestBackupDuringRotation rotates the node's key while 16 clients deliver, each time
// after a backup has copied the database and before it copies the log: so the log
// holds receipts of a key that the copy does not know, often before the event that
// tells of it. Each backup restores to a house that seals.
func TestBackupDuringRotation(t *testing.T) {
	h := newHouse(t)
	load := startLoad(t, h.client, h.rights)
	load.await(200)
	var copies []string
	for i := range 2 {
		to := filepath.Join(t.TempDir(), fmt.Sprint(i))
		_, err := store.Backup{Data: h.data, To: to, OpenLog: func(dir string) (store.LogCopier, error) {
			for range 2 {
				load.await(100)
				h.muniment("signing-key", "rotate", "--data", h.data, current(t, h.exe, h.data, sealer.PurposeReceipt))
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

// goesOn restores a backup to a house that delivers, seals and is proven. It returns
// how many receipts were in the backup.
func (h *house) goesOn(backup string) (receipts int) {
	h.t.Helper()
	other, _ := h.restored(backup)
	other.start()
	receipts = other.metered()
	other.receipts(3)
	require.Equal(h.t, receipts+3, other.metered())
	packs := sealAndExport(h.t, other.client)
	other.stop()
	verifyPacks(h.t, h.exe, other.data, packs)
	return receipts
}

// TestBackupBeforeTheNewKeyIsTold is the same with the order of things fixed: the
// new key has signed before the log tells of it.
func TestBackupBeforeTheNewKeyIsTold(t *testing.T) {
	h := newHouse(t)
	h.receipts(5)
	h.stop()
	quiet := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), store.Config{Path: filepath.Join(h.data, "control.db"), Logger: quiet})
	require.NoError(t, err)
	defer db.Close()
	nodes, err := node.New(t.Context(), node.Config{DB: db, Dir: filepath.Join(h.data, "keys"), Logger: quiet})
	require.NoError(t, err)
	epoch, err := nodes.Enrol(t.Context(), nodeID)
	require.NoError(t, err)
	lend, err := nodes.ReceiptSigner(nodeID, sealer.PurposeReceipt)
	require.NoError(t, err)
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
		signer, done, err := lend(t.Context(), at)
		require.NoError(t, err)
		defer done()
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
		_, err = log.Append(t.Context(), &sealer.Record{TenantID: e.TenantID, EventID: e.EventID, Node: nodeID, Epoch: epoch, Seq: seq, Event: event})
		require.NoError(t, err)
	}
	deliver(1)
	require.NoError(t, db.SetHighWater(t.Context(), end))

	to := filepath.Join(t.TempDir(), "backup")
	_, err = store.Backup{Data: h.data, To: to, OpenLog: func(dir string) (store.LogCopier, error) {
		signer, done, err := lend(t.Context(), time.Now())
		require.NoError(t, err)
		done()
		_, err = nodes.Rotate(t.Context(), signer.KeyID, store.ByOperator())
		require.NoError(t, err)
		deliver(2)
		return segment.OpenReader(dir)
	}}.Run(t.Context())
	require.NoError(t, err)
	require.NoError(t, log.Close())
	require.NoError(t, db.Close())
	require.Equal(t, 6, h.goesOn(to), "what was signed by the key of that time")
}

// seal seals, however long the loader takes to catch up.
func (h *house) seal() {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		return h.client.Do(h.t.Context(), "POST", "/v1/proof-packs/seal", map[string]any{}, nil) == nil
	}, 30*time.Second, 50*time.Millisecond)
}

// TestRestoreIsHeldAgainstAPack restores a backup beside packs and checkpoints that
// were sealed before and after it.
func TestRestoreIsHeldAgainstAPack(t *testing.T) {
	h := newHouse(t)
	h.receipts(5)
	before := sealAndExport(t, h.client)
	answer := filepath.Join(t.TempDir(), "checkpoint.json")
	require.NoError(t, h.client.Download(t.Context(), "/v1/proof-packs/checkpoint", answer))
	to := filepath.Join(t.TempDir(), "backup")
	h.backUp(to)
	h.receipts(5)
	after := sealAndExport(t, h.client)
	h.stop()
	require.Len(t, after, 2)
	require.Equal(t, 0, bytes.Compare(read(t, before[0]), read(t, after[0])))
	data := filepath.Join(t.TempDir(), "data")

	_, err := restore(to, data, before[0], after[1])
	require.ErrorContains(t, err, "it is older than "+after[1])
	require.NoDirExists(t, data)
	require.NoDirExists(t, data+".partial")
	_, err = restore(to, data, checkpoint(t, after[1]))
	require.ErrorContains(t, err, "older than")
	made, err := restore(to, data, before[0], checkpoint(t, before[0]), answer)
	require.NoError(t, err)
	require.Len(t, made.Expected, 3)
	for _, e := range made.Expected {
		require.Equal(t, made.Expected[0].RootHash, e.RootHash)
	}

	// The restored house seals other entries at a size that was signed: whoever holds
	// either pack can tell.
	other := &house{t: t, exe: h.exe, data: data, client: h.client, rights: h.rights}
	other.start()
	other.receipts(9)
	forked := sealAndExport(t, other.client)
	to = filepath.Join(t.TempDir(), "forked")
	other.backUp(to)
	other.stop()
	elsewhere := filepath.Join(t.TempDir(), "data")
	_, err = restore(to, elsewhere, after[1])
	require.ErrorContains(t, err, "another history than "+after[1])
	_, err = restore(to, elsewhere, forked...)
	require.NoError(t, err)

	// What is no checkpoint, or a stranger's, settles nothing.
	stranger := newHouse(t)
	stranger.receipts(1)
	foreign := sealAndExport(t, stranger.client)[0]
	for file, why := range map[string]string{
		filepath.Join(t.TempDir(), "none"):         "no such file",
		filepath.Join(h.data, "keys", "root.vkey"): "neither a proof pack nor a checkpoint",
		foreign:                "it is older than " + foreign,
		checkpoint(t, foreign): "no key that the backup knows has signed the checkpoint",
		altered(t, checkpoint(t, before[0]), "\n", "\n1"): "no key that the backup knows has signed the checkpoint",
	} {
		_, err = restore(to, filepath.Join(t.TempDir(), "data"), file)
		require.ErrorContains(t, err, why)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return text
}

// checkpoint takes the signed note out of a pack.
func checkpoint(t *testing.T, pack string) (file string) {
	t.Helper()
	p, err := sealer.ReadPack(bytes.NewReader(read(t, pack)))
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "checkpoint")
	require.NoError(t, os.WriteFile(file, []byte(p.Header().Checkpoint), 0o600))
	return file
}

// altered is a copy of a file with the first of a text replaced.
func altered(t *testing.T, file, old, new string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "altered")
	require.NoError(t, os.WriteFile(to, []byte(strings.Replace(string(read(t, file)), old, new, 1)), 0o600))
	return to
}

// TestRestoreRefusesWhatIsNotWhole harms each file of a backup in turn.
func TestRestoreRefusesWhatIsNotWhole(t *testing.T) {
	h := newHouse(t)
	h.receipts(5)
	h.metered()
	whole, tarred := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "backup.tar")
	m := h.backUp(whole)
	h.backUp(tarred)
	private(t, whole)
	h.receipts(5)
	h.metered()
	later := filepath.Join(t.TempDir(), "later")
	newer := h.backUp(later)
	h.stop()
	data := filepath.Join(t.TempDir(), "data")
	refused := func(from, why string) {
		t.Helper()
		_, err := restore(from, data)
		require.ErrorContains(t, err, why)
		require.NoDirExists(t, data)
		require.NoDirExists(t, data+".partial")
	}
	harmed := func(harm func(dir string)) string {
		dir := filepath.Join(t.TempDir(), "harmed")
		require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
		harm(dir)
		return dir
	}
	require.Greater(t, len(m.Files), 5)
	for _, f := range m.Files {
		refused(harmed(func(dir string) {
			text := read(t, filepath.Join(dir, f.Name))
			text[len(text)/2] ^= 1
			require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), text, 0o600))
		}), f.Name+" is not what was backed up")
		refused(harmed(func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, f.Name))) }), f.Name)
	}
	refused(harmed(func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "manifest.json"))) }), "it is no whole backup")

	// Manifests that match their files, but are no backup.
	rewritten := func(rewrite func(m *store.Manifest)) string {
		return harmed(func(dir string) {
			m := m
			m.Files = append([]store.File(nil), m.Files...)
			rewrite(&m)
			text, err := json.Marshal(m)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600))
		})
	}
	without := func(part string) string {
		return rewritten(func(m *store.Manifest) {
			var left []store.File
			for _, f := range m.Files {
				if !strings.HasPrefix(f.Name, part) {
					left = append(left, f)
				}
			}
			require.Less(t, len(left), len(m.Files))
			m.Files = left
		})
	}
	refused(without("packs/"), "was sealed")
	refused(without("log/"), "the log ends at offset 0")
	refused(without("warehouse.db"), "warehouse.db")
	refused(without("control.db"), "control.db")
	refused(rewritten(func(m *store.Manifest) { m.Format = "muniment-backup.v2" }), `its format is "muniment-backup.v2"`)
	for _, name := range []string{"../evil", "log/../../evil", "/etc/evil", "log", "keys/", "keys//x", "evil", ""} {
		refused(rewritten(func(m *store.Manifest) { m.Files[0].Name = name }), "which is no file of a backup")
	}

	// Parts of two backups.
	mixed := rewritten(func(m *store.Manifest) {
		at := func(list []store.File) int {
			return slices.IndexFunc(list, func(f store.File) bool { return f.Name == "warehouse.db" })
		}
		m.Files[at(m.Files)] = newer.Files[at(newer.Files)]
	})
	copyAll(t, filepath.Join(later, "warehouse.db"), filepath.Join(mixed, "warehouse.db"))
	refused(mixed, pipeline.ErrLogBehind.Error())

	// Damage that was there before the backup matches its manifest.
	for _, f := range m.Files {
		why := map[string]string{"warehouse.db": "warehouse.db is damaged", "control.db": "control.db is damaged"}[f.Name]
		if strings.HasPrefix(f.Name, "packs/") {
			why = f.Name + " is not what was sealed"
		}
		if strings.HasPrefix(f.Name, "log/") {
			why = "log is damaged"
		}
		if why == "" {
			continue // a key is not the backup's to judge
		}
		dir := rewritten(func(m *store.Manifest) {
			text := read(t, filepath.Join(whole, f.Name))
			damage(text)
			sum := sha256.Sum256(text)
			i := slices.IndexFunc(m.Files, func(g store.File) bool { return g.Name == f.Name })
			m.Files[i].SHA256 = hex.EncodeToString(sum[:])
		})
		text := read(t, filepath.Join(dir, f.Name))
		damage(text)
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), text, 0o600))
		refused(dir, why)
	}

	text := read(t, tarred)
	for _, size := range []int{0, 511, 700, len(text) / 2} {
		cut := filepath.Join(t.TempDir(), "cut.tar")
		require.NoError(t, os.WriteFile(cut, text[:size], 0o600))
		refused(cut, "unexpected EOF")
	}

	// Nothing that is there is overwritten.
	require.NoError(t, os.MkdirAll(filepath.Join(data, "precious"), 0o700))
	_, err := restore(whole, data)
	require.ErrorContains(t, err, data+" exists already")
	require.NoError(t, os.Remove(filepath.Join(data, "precious")))
	_, err = restore(tarred, data)
	require.NoError(t, err)
	private(t, data)
	_, err = store.Backup{Data: data, To: whole}.Run(t.Context())
	require.ErrorContains(t, err, "exists already")
	_, err = store.Backup{Data: t.TempDir(), To: filepath.Join(t.TempDir(), "x")}.Run(t.Context())
	require.ErrorContains(t, err, "it is no data folder")
}

// damage clears some of the middle of a file.
func damage(text []byte) {
	from := len(text) / 2
	clear(text[from:min(from+8192, len(text)-10)])
}

// private checks that nobody but its owner can read a folder, whatever he shares.
func private(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if info.Mode().Perm()&0o077 != 0 && d.Name() != "root.vkey" {
			err = errors.Join(err, fmt.Errorf("%s has mode %v", name, info.Mode()))
		}
		return err
	}))
}

// TestBackupNamesAMissingPack: a backup that lacks a pack would be none.
func TestBackupNamesAMissingPack(t *testing.T) {
	h := newHouse(t)
	h.receipts(1)
	h.metered()
	h.stop()
	files, err := filepath.Glob(filepath.Join(h.data, "packs", "*", "*.ndjson"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(files[0]))
	to := filepath.Join(t.TempDir(), "backup")
	out, err := exec.CommandContext(t.Context(), h.exe, "backup", "--data", h.data, "--to", to).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), files[0])
	require.NoDirExists(t, to)
	require.NoDirExists(t, to+".partial")
}

// TestBackupWithoutKeys: the restored house must not make itself another root.
func TestBackupWithoutKeys(t *testing.T) {
	h := newHouse(t)
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
// not missed by a restored house.
func TestBackupLeavesTheRootOut(t *testing.T) {
	h := newHouse(t)
	h.receipts(3)
	backup := func(args ...string) (to, said string) {
		to = filepath.Join(t.TempDir(), "backup")
		out, err := exec.CommandContext(t.Context(), h.exe, append([]string{"backup", "--data", h.data, "--to", to}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return to, string(out)
	}
	plain, said := backup()
	require.Contains(t, said, "keys/root.skey left out")
	require.NoFileExists(t, filepath.Join(plain, "keys", "root.skey"))
	full, said := backup("--with-root")
	require.NotContains(t, said, "left out")
	require.Equal(t, read(t, filepath.Join(h.data, "keys", "root.skey")), read(t, filepath.Join(full, "keys", "root.skey")))
	_, err := store.Backup{Data: h.data, To: filepath.Join(t.TempDir(), "x"), WithoutKeys: true, WithRoot: true}.Run(t.Context())
	require.ErrorContains(t, err, "without the keys")
	for i, said := range []string{
		h.muniment("backup", "--data", h.data, "--to", filepath.Join(t.TempDir(), "x"), "--json"),
		string(read(t, filepath.Join(full, "manifest.json"))),
	} {
		var m store.Manifest
		require.NoError(t, json.Unmarshal([]byte(said), &m))
		require.Equal(t, i == 1, m.Root)
	}
	require.NoError(t, os.Remove(filepath.Join(h.data, "keys", "root.skey")))
	_, said = backup()
	require.NotContains(t, said, "left out", "it is elsewhere already")
	h.stop()
	require.Equal(t, 3, h.goesOn(plain))
}
