package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"muniment.example/control/rapidtest"
	"muniment.example/pipeline"
	"muniment.example/pipeline/conform"
	"muniment.example/sealer"
)

// noise is JSON text that hardly compresses.
func noise(random *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + random.IntN(75))
	}
	return strings.NewReplacer(`\`, "_", `"`, "-").Replace(string(b))
}

// blocksOf reads the blocks of a warehouse by tenant, in the order of their texts.
func blocksOf(tb require.TestingT, w *Warehouse) map[int64][]*textBlock {
	all := map[int64][]*textBlock{}
	require.NoError(tb, each(context.Background(), w.read, func(scan func(...any) error) error {
		b := new(textBlock)
		err := b.scan(scan)
		all[b.tenant] = append(all[b.tenant], b)
		return err
	}, `SELECT `+blockColumns+` FROM text_blocks ORDER BY tenant, first`))
	return all
}

// requireBlocks: the blocks of a tenant have its texts in one row, are open only at the end, where they are
// less than a whole one, and hold what an event refers to, and no more.
func requireBlocks(tb require.TestingT, w *Warehouse) {
	found := map[string]bool{}
	for tenant, blocks := range blocksOf(tb, w) {
		open, openSize := false, int64(0)
		for i, b := range blocks {
			if i > 0 {
				require.GreaterOrEqual(tb, b.first, blocks[i-1].first+blocks[i-1].texts)
			}
			require.True(tb, b.size <= blockBytes || b.texts == 1)
			require.True(tb, b.open || !open, "an open block before a whole one")
			if open = b.open; open {
				openSize += b.size
			}
			events, private, err := b.all(w.codec)
			require.NoError(tb, err)
			for k, event := range events {
				if event == nil {
					require.Nil(tb, private[k])
					continue
				}
				found[fmt.Sprintf("%d of %d", b.first+int64(k), tenant)] = true
			}
		}
		require.Less(tb, openSize, int64(blockBytes))
	}
	require.NoError(tb, each(context.Background(), w.read, func(scan func(...any) error) error {
		var tenant, text int64
		err := scan(&tenant, &text)
		of := fmt.Sprintf("%d of %d", text, tenant)
		require.True(tb, found[of], "text %s is missing", of)
		delete(found, of)
		return err
	}, `SELECT tenant, text FROM events WHERE class = 0`))
	require.Empty(tb, found, "no events have these texts")
}

// traces are the frames of private parts in which persons stood.
type traces map[string]map[string]bool

// note adds the frames of now.
func (all traces) note(tb require.TestingT, w *Warehouse, persons ...string) {
	for _, blocks := range blocksOf(tb, w) {
		for _, b := range blocks {
			_, private, err := b.all(w.codec)
			require.NoError(tb, err)
			for _, person := range persons {
				if slices.ContainsFunc(private, func(text []byte) bool { return bytes.Contains(text, []byte(person)) }) {
					if all[person] == nil {
						all[person] = map[string]bool{}
					}
					all[person][string(b.private)] = true
				}
			}
		}
	}
}

// requireNone: neither a person nor a piece of a frame in which the person stood is in a file, unless it is
// in a frame of now too.
func (all traces) requireNone(tb require.TestingT, w *Warehouse, folder, person string) {
	var now []byte
	for _, blocks := range blocksOf(tb, w) {
		for _, b := range blocks {
			_, private, err := b.all(w.codec)
			require.NoError(tb, err)
			for _, text := range private {
				require.NotContains(tb, string(text), person)
			}
			now = append(append(now, b.events...), b.private...)
		}
	}
	require.NoError(tb, each(context.Background(), w.read, func(scan func(...any) error) error {
		var event, private []byte
		err := scan(&event, &private)
		now = append(append(now, event...), private...)
		return err
	}, `SELECT event, private FROM texts`))
	paths, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(tb, err)
	for _, path := range paths {
		file, err := os.ReadFile(path)
		require.NoError(tb, err)
		require.False(tb, bytes.Contains(file, []byte(person)), path)
		for frame := range all[person] {
			for i := 0; i+24 <= len(frame); i += 12 {
				piece := []byte(frame[i : i+24])
				require.False(tb, bytes.Contains(file, piece) && !bytes.Contains(now, piece), "%s has bytes %d to %d of a frame of %d", path, i, i+24, len(frame))
			}
		}
	}
}

// copyWarehouse copies the files of a warehouse as a process that is killed leaves them.
func copyWarehouse(tb require.TestingT, from, to string) {
	require.NoError(tb, os.MkdirAll(to, 0o700))
	for _, name := range []string{"warehouse.db", "warehouse.db-wal"} {
		b, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(tb, err)
		require.NoError(tb, os.WriteFile(filepath.Join(to, name), b, 0o600))
	}
}

var errKilled = errors.New("killed")

// textsModel is a warehouse, and what it was given.
type textsModel struct {
	*testing.T
	w       *Warehouse
	folder  string
	folders int

	random  *rand.Rand
	key     pipeline.SubjectKey
	batches []pipeline.Batch
	stones  []pipeline.Tombstone
	traces  traces
	next    int64 // position
	saved   string
	loaded  int // of batches, when it was saved
}

func (m *textsModel) ctx() context.Context { return m.Context() }

func (m *textsModel) newFolder() string {
	m.folders++
	return filepath.Join(m.TempDir(), fmt.Sprint(m.folders))
}

// move goes on with other files.
func (m *textsModel) move(folder string) {
	require.NoError(m, m.w.Close())
	m.folder = folder
	m.open()
}

func (m *textsModel) open() {
	var err error
	m.w, err = Open(m.ctx(), Config{Path: filepath.Join(m.folder, "warehouse.db")})
	require.NoError(m, err)
}

func person(tenant, name string) string { return name + "-of-" + tenant + "@example.org" }

var modelTenants, modelPersons = []string{"tnt_a", "tnt_b", "tnt_c"}, []string{"ada", "bob", "cid"}

func everyone() (list []string) {
	for _, tenant := range modelTenants {
		for _, name := range modelPersons {
			list = append(list, person(tenant, name))
		}
	}
	return list
}

// row makes one of about a size; some name persons, and some are no deliveries.
func (m *textsModel) row(t *rapid.T, size int) pipeline.Row {
	tenant := rapid.SampledFrom(modelTenants).Draw(t, "tenant")
	name := rapid.SampledFrom(modelPersons).Draw(t, "person")
	m.next += 2 // between two there is room for a copy
	r := conform.Shown(tenant, m.next, person(tenant, name), `{"beamId":"`+noise(m.random, rapid.IntRange(0, size).Draw(t, "size"))+`"}`)
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		r.Private = nil
	case 1:
		r.Type, r.Delivery = "right.changed", nil
	}
	return r
}

// anyRow is one that was loaded.
func (m *textsModel) anyRow(t *rapid.T) pipeline.Row {
	rows := m.batches[rapid.IntRange(0, len(m.batches)-1).Draw(t, "batch")].Rows
	return rows[rapid.IntRange(0, len(rows)-1).Draw(t, "row")]
}

func (m *textsModel) load(b pipeline.Batch) {
	require.NoError(m, m.w.Load(m.ctx(), b))
	m.traces.note(m, m.w, everyone()...)
}

func batchOf(rows ...pipeline.Row) pipeline.Batch {
	return pipeline.Batch{Partition: 3, From: conform.Place(0), Rows: rows, Next: rows[len(rows)-1].Position.Next()}
}

// want is what must be listed of a tenant.
func (m *textsModel) want(tenant string) (list []pipeline.Row) {
	erased := pipeline.NewErased(m.key, m.stones)
	lowest := map[string]pipeline.Row{}
	for _, b := range m.batches {
		for _, r := range b.Rows {
			have, ok := lowest[r.EventID]
			if r.TenantID == tenant && (!ok || r.Position.Compare(have.Position) < 0) {
				var err error
				r.Private, _, err = erased.Private(&r)
				require.NoError(m, err)
				lowest[r.EventID] = r
			}
		}
	}
	return slices.SortedFunc(maps.Values(lowest), func(a, b pipeline.Row) int { return a.Position.Compare(b.Position) })
}

// TestTextsComeBack byte for byte, however few are loaded at once, copies come late, persons are erased, an
// older copy is restored, and the process is killed at any step of a Load or an Erase. Nothing of an erased
// person is in the files.
func TestTextsComeBack(t *testing.T) {
	rapidtest.Check(t, 2, 100, func(rt *rapid.T) {
		m := &textsModel{T: t, random: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "noise"), 0)), key: pipeline.SubjectKey{4}, traces: traces{}}
		m.folder = m.newFolder()
		require.NoError(t, os.Mkdir(m.folder, 0o700))
		m.open()
		defer func() { require.NoError(t, m.w.Close()) }()
		require.NoError(t, m.w.Erase(m.ctx(), m.key, nil))
		deliver := func(t *rapid.T, most, size int) pipeline.Batch {
			var rows []pipeline.Row
			for range rapid.IntRange(1, most).Draw(t, "rows") {
				rows = append(rows, m.row(t, size))
			}
			return batchOf(rows...)
		}
		stone := func(t *rapid.T) pipeline.Tombstone {
			tenant := rapid.SampledFrom(modelTenants).Draw(t, "of")
			until := conform.Shown(tenant, rapid.Int64Range(0, m.next).Draw(t, "until"), "", `{}`).At
			return pipeline.Tombstone{TenantID: tenant, SubjectHash: m.key.Hash(tenant, person(tenant, rapid.SampledFrom(modelPersons).Draw(t, "who"))), Until: until}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"many": func(t *rapid.T) {
				m.batches = append(m.batches, deliver(t, 120, 2000))
				m.load(m.batches[len(m.batches)-1])
			},
			"one by one": func(t *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(t, "loads") {
					m.batches = append(m.batches, deliver(t, 1, 1000))
					m.load(m.batches[len(m.batches)-1])
				}
			},
			"a huge one": func(t *rapid.T) {
				m.batches = append(m.batches, deliver(t, 3, 100_000))
				m.load(m.batches[len(m.batches)-1])
			},
			"a copy before it": func(t *rapid.T) {
				if len(m.batches) == 0 {
					return
				}
				r := m.anyRow(t)
				if r.Offset%2 == 0 {
					r.Position = conform.Place(r.Offset - 1)
				}
				m.batches = append(m.batches, batchOf(r))
				m.load(m.batches[len(m.batches)-1])
			},
			"erase": func(t *rapid.T) {
				s := stone(t)
				m.stones = append(m.stones, s)
				require.NoError(t, m.w.Erase(m.ctx(), m.key, m.stones))
				for _, tenant := range modelTenants {
					for _, name := range modelPersons {
						if !slices.ContainsFunc(m.want(tenant), func(r pipeline.Row) bool { return bytes.Contains(r.Private, []byte(person(tenant, name))) }) {
							m.traces.requireNone(t, m.w, m.folder, person(tenant, name))
						}
					}
				}
			},
			"kill a load": func(t *rapid.T) {
				b, folder := deliver(t, 60, 1500), m.newFolder()
				step := rapid.IntRange(0, 10).Draw(t, "step")
				err := m.w.change(m.ctx(), func(l *load) error {
					for i, take := range l.steps() {
						if i == step {
							break
						}
						if err := take(b); err != nil {
							return err
						}
					}
					copyWarehouse(t, m.folder, folder)
					return errKilled
				})
				require.ErrorIs(t, err, errKilled)
				m.move(folder)
				m.batches = append(m.batches, b)
				m.load(b)
			},
			"kill an erasure": func(t *rapid.T) {
				folder, s := m.newFolder(), stone(t)
				committed := rapid.Bool().Draw(t, "committed")
				err := m.w.change(m.ctx(), func(l *load) error {
					if err := l.erase(m.key, []pipeline.Tombstone{s}); err != nil {
						return err
					}
					l.forget()
					if committed {
						return nil
					}
					copyWarehouse(t, m.folder, folder)
					return errKilled
				})
				if committed {
					require.NoError(t, err)
					copyWarehouse(t, m.folder, folder)
					m.stones = append(m.stones, s)
				} else {
					require.ErrorIs(t, err, errKilled)
				}
				m.move(folder)
			},
			"reopen": func(t *rapid.T) { m.move(m.folder) },
			"save": func(t *rapid.T) {
				m.saved, m.loaded = m.newFolder(), len(m.batches)
				copyWarehouse(t, m.folder, m.saved)
			},
			"restore": func(t *rapid.T) {
				if m.saved == "" {
					return
				}
				folder := m.newFolder()
				copyWarehouse(t, m.saved, folder)
				m.move(folder)
				require.NoError(t, m.w.Erase(m.ctx(), m.key, m.stones))
				for _, b := range m.batches[m.loaded:] {
					m.load(b)
				}
			},
			"": func(t *rapid.T) {
				requireBlocks(t, m.w)
				for _, tenant := range modelTenants {
					want := m.want(tenant)
					for _, newest := range []bool{false, true} {
						rows, err := m.w.Events(m.ctx(), pipeline.EventQuery{TenantID: tenant, Newest: newest, Limit: len(want) + 1})
						require.NoError(t, err)
						require.Len(t, rows, len(want))
						for i := range rows {
							at := i
							if newest {
								at = len(want) - 1 - i
							}
							require.Equal(t, want[at].EventID, rows[i].EventID)
							require.Equal(t, want[at].Position, rows[i].Position)
							require.Equal(t, string(want[at].Event), string(rows[i].Event))
							require.Equal(t, string(want[at].Private), string(rows[i].Private))
						}
					}
					if len(want) == 0 {
						continue
					}
					r := want[m.random.IntN(len(want))]
					one, err := m.w.Event(m.ctx(), tenant, r.EventID)
					require.NoError(t, err)
					require.Equal(t, string(r.Event), string(one.Event))
					require.Equal(t, string(r.Private), string(one.Private))
				}
			},
		})
	})
}

// TestTrickleFillsBlocks: receipts that come one by one are in whole blocks soon, and each is written twice.
func TestTrickleFillsBlocks(t *testing.T) {
	w := mustOpen(t, filepath.Join(t.TempDir(), "warehouse.db"))
	require.NoError(t, w.Erase(t.Context(), pipeline.SubjectKey{4}, nil))
	_, err := w.write.ExecContext(t.Context(), `CREATE TEMP TABLE written (texts);
		CREATE TEMP TRIGGER count_written AFTER INSERT ON main.text_blocks BEGIN INSERT INTO written VALUES (new.texts); END`)
	require.NoError(t, err)
	const n = 150
	for i := range int64(n) {
		row := conform.Shown("tnt_a", i, "ada", `{"appState":"foreground"}`)
		require.NoError(t, w.Load(t.Context(), pipeline.Batch{Partition: 3, From: row.Position, Rows: []pipeline.Row{row}, Next: row.Position.Next()}))
	}
	requireBlocks(t, w)
	whole, open := 0, 0
	for _, b := range blocksOf(t, w)[1] {
		if b.open {
			open++
		} else {
			whole += int(b.texts)
			require.Greater(t, b.size, int64(wholeBytes))
		}
	}
	require.Equal(t, n, whole+open)
	require.Less(t, open, 40)
	var written int
	require.NoError(t, w.write.QueryRowContext(t.Context(), `SELECT SUM(texts) FROM written`).Scan(&written))
	require.LessOrEqual(t, written, 2*n+whole/10, "what is left over of a block is in the next one")
}

// TestLoadFailsAtEachWrite of a block: nothing has changed, and the batch can be loaded.
func TestLoadFailsAtEachWrite(t *testing.T) {
	folder := t.TempDir()
	w := mustOpen(t, filepath.Join(folder, "warehouse.db"))
	require.NoError(t, w.Erase(t.Context(), pipeline.SubjectKey{4}, nil))
	var rows []pipeline.Row
	for i := range int64(60) {
		rows = append(rows, conform.Shown([]string{"tnt_a", "tnt_b"}[i%2], i, "ada", `{"appState":"foreground"}`))
	}
	batch := func(from, to int) pipeline.Batch {
		return pipeline.Batch{Partition: 3, From: rows[from].Position, Rows: rows[from:to], Next: rows[to-1].Position.Next()}
	}
	for i := range 24 {
		require.NoError(t, w.Load(t.Context(), batch(i, i+1)))
	}
	_, err := w.write.ExecContext(t.Context(), `CREATE TEMP TABLE faults (left);
		CREATE TEMP TRIGGER fault_insert BEFORE INSERT ON main.text_blocks BEGIN UPDATE faults SET left = left - 1; SELECT RAISE(ABORT, 'fault') FROM faults WHERE left < 0; END;
		CREATE TEMP TRIGGER fault_delete BEFORE DELETE ON main.text_blocks BEGIN UPDATE faults SET left = left - 1; SELECT RAISE(ABORT, 'fault') FROM faults WHERE left < 0; END`)
	require.NoError(t, err)
	before := blocksOf(t, w)
	for n := 0; ; n++ {
		_, err := w.write.ExecContext(t.Context(), `DELETE FROM faults`)
		require.NoError(t, err)
		_, err = w.write.ExecContext(t.Context(), `INSERT INTO faults VALUES (?)`, n)
		require.NoError(t, err)
		err = w.Load(t.Context(), batch(24, 60))
		if err == nil {
			require.Greater(t, n, 26, "each open block is deleted, and two are made of each tenant's")
			break
		}
		require.ErrorContains(t, err, "fault")
		require.Equal(t, before, blocksOf(t, w))
		next, _, err := w.Resume(t.Context(), 3)
		require.NoError(t, err)
		require.Equal(t, rows[24].Position, next)
	}
	requireBlocks(t, w)
}

// TestDamagedBlockIsAnError of the rows in it alone.
func TestDamagedBlockIsAnError(t *testing.T) {
	w := mustOpen(t, filepath.Join(t.TempDir(), "warehouse.db"))
	require.NoError(t, w.Erase(t.Context(), pipeline.SubjectKey{4}, nil))
	var rows []pipeline.Row
	for i := range int64(200) {
		rows = append(rows, conform.Shown("tnt_a", i, "ada", `{"appState":"foreground"}`))
	}
	require.NoError(t, w.Load(t.Context(), batchOf(rows...)))
	second := blocksOf(t, w)[1][1]
	read := func(r pipeline.Row) error {
		_, err := w.Event(t.Context(), "tnt_a", r.EventID)
		return err
	}
	in, out := rows[second.first-1], rows[second.first-2]
	change := func(column string, value any) {
		_, err := w.write.ExecContext(t.Context(), `UPDATE text_blocks SET `+column+` = ? WHERE text_block = ?`, value, second.number)
		require.NoError(t, err)
	}
	for column, frame := range map[string][]byte{"events": second.events, "private": second.private} {
		flipped := bytes.Clone(frame)
		flipped[len(flipped)/2] ^= 4
		for _, damaged := range [][]byte{flipped, frame[:len(frame)-1], w.codec.pack([][]byte{{1}}), w.codec.encoder.EncodeAll([]byte{200}, nil)} {
			change(column, damaged)
			require.ErrorContains(t, read(in), fmt.Sprintf("texts %d to %d of tenant 1 are damaged, in block 2", second.first, second.first+second.texts-1))
			require.NoError(t, read(out))
			_, err := w.Events(t.Context(), pipeline.EventQuery{TenantID: "tnt_a", Limit: 500})
			require.ErrorContains(t, err, "damaged")
			_, err = w.MeterTotals(t.Context(), pipeline.MeterQuery{TenantID: "tnt_a"})
			require.NoError(t, err)
		}
		change(column, frame)
		require.NoError(t, read(in))
	}
	_, err := w.write.ExecContext(t.Context(), `DELETE FROM text_blocks WHERE text_block = ?`, second.number)
	require.NoError(t, err)
	require.ErrorContains(t, read(in), "missing")
	require.NoError(t, read(out))
}

// TestDamagedOpenBlockKeepsNobodyFromLoading: it stays as it is, and the others are joined.
func TestDamagedOpenBlockKeepsNobodyFromLoading(t *testing.T) {
	w := mustOpen(t, filepath.Join(t.TempDir(), "warehouse.db"))
	require.NoError(t, w.Erase(t.Context(), pipeline.SubjectKey{4}, nil))
	var rows []pipeline.Row
	for i := range int64(60) {
		rows = append(rows, conform.Shown("tnt_a", i, "ada", `{"appState":"foreground"}`))
		if i == 5 {
			_, err := w.write.ExecContext(t.Context(), `UPDATE text_blocks SET events = x'00' WHERE first = 3`)
			require.NoError(t, err)
		}
		require.NoError(t, w.Load(t.Context(), pipeline.Batch{Partition: 3, From: rows[i].Position, Rows: rows[i:], Next: rows[i].Position.Next()}))
	}
	for i, r := range rows {
		one, err := w.Event(t.Context(), "tnt_a", r.EventID)
		if i == 2 {
			require.ErrorContains(t, err, "damaged")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, r.Event, one.Event)
	}
	require.Less(t, len(blocksOf(t, w)[1]), 30)
}

// damagedBlocks makes a warehouse with many blocks of two persons, and damages the second in one way.
func damagedBlocks(t *testing.T, folder string, damage func(w *Warehouse, b *textBlock) (column string, value any)) (w *Warehouse, rows []pipeline.Row, second *textBlock) {
	w = mustOpen(t, filepath.Join(folder, "warehouse.db"))
	require.NoError(t, w.Erase(t.Context(), pipeline.SubjectKey{4}, nil))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range int64(200) {
		rows = append(rows, conform.Shown("tnt_a", i+1, []string{"ada@example.org", "bob"}[i%2], `{"beamId":"`+noise(random, 200)+`"}`))
	}
	require.NoError(t, w.Load(t.Context(), batchOf(rows...)))
	second = blocksOf(t, w)[1][1]
	column, value := damage(w, second)
	statement, args := `DELETE FROM text_blocks WHERE text_block = ?`, []any{second.number}
	if column != "" {
		statement, args = `UPDATE text_blocks SET `+column+` = ? WHERE text_block = ?`, []any{value, second.number}
	}
	_, err := w.write.ExecContext(t.Context(), statement, args...)
	require.NoError(t, err)
	return w, rows, second
}

func flipped(frame []byte) []byte {
	frame = bytes.Clone(frame)
	frame[len(frame)/2] ^= 4
	return frame
}

// damages are ways in which a block is damaged.
var damages = map[string]func(w *Warehouse, b *textBlock) (column string, value any){
	"events":          func(_ *Warehouse, b *textBlock) (string, any) { return "events", flipped(b.events) },
	"private parts":   func(_ *Warehouse, b *textBlock) (string, any) { return "private", flipped(b.private) },
	"other lengths":   func(w *Warehouse, _ *textBlock) (string, any) { return "private", w.codec.pack([][]byte{{1}}) },
	"a missing block": func(*Warehouse, *textBlock) (string, any) { return "", nil },
}

// pieces counts the pieces of a frame that stand in the files of a folder, and not among some bytes.
func pieces(tb testing.TB, folder string, frame, other []byte) (n int) {
	for i := 0; i+24 <= len(frame); i += 12 {
		if !bytes.Contains(other, frame[i:i+24]) {
			n += len(files(tb, folder, string(frame[i:i+24])))
		}
	}
	return n
}

// privateFrames are those of a warehouse.
func privateFrames(tb testing.TB, w *Warehouse) (all []byte) {
	for _, b := range blocksOf(tb, w)[1] {
		all = append(all, b.private...)
	}
	return all
}

// TestErasingFromADamagedBlock: nothing of it that may name the person is left in the files, the other blocks keep
// what they have of others, and a process that starts with the tombstone and the damage has the warehouse erase too.
func TestErasingFromADamagedBlock(t *testing.T) {
	key := pipeline.SubjectKey{4}
	for name, damage := range damages {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", restarted), func(t *testing.T) {
				folder := t.TempDir()
				w, rows, second := damagedBlocks(t, folder, damage)
				var damaged [2][]byte // frames
				for _, b := range blocksOf(t, w)[1] {
					if b.number == second.number {
						damaged = [2][]byte{b.events, b.private}
					}
				}
				hash := key.Hash("tnt_a", "ada@example.org")
				n, err := w.CountSubject(t.Context(), "tnt_a", hash)
				require.NoError(t, err)
				require.GreaterOrEqual(t, n.PrivateParts, 100-second.texts/2-1)
				_, err = w.CountTelemetry(t.Context(), "tnt_a", sealer.NewPerson("ada@example.org"))
				require.NoError(t, err)
				if name == "events" || name == "private parts" {
					require.Greater(t, pieces(t, folder, damaged[1], nil), len(damaged[1])/24)
				}
				if restarted {
					require.NoError(t, w.Close())
					w = mustOpen(t, filepath.Join(folder, "warehouse.db"))
				}
				stones := []pipeline.Tombstone{{TenantID: "tnt_a", SubjectHash: hash, Until: rows[199].At}}
				for range 2 {
					require.NoError(t, w.Erase(t.Context(), key, stones))
				}
				for _, frame := range [][]byte{second.private, damaged[1]} {
					require.Zero(t, pieces(t, folder, frame, privateFrames(t, w)))
				}
				if name == "events" {
					require.Positive(t, pieces(t, folder, damaged[0], nil), "these name nobody")
				}
				n, err = w.CountSubject(t.Context(), "tnt_a", hash)
				require.NoError(t, err)
				require.Zero(t, n.PrivateParts)
				for i, r := range rows {
					inBlock := int64(i) >= second.first-1 && int64(i) < second.first-1+second.texts
					one, err := w.Event(t.Context(), "tnt_a", r.EventID)
					if inBlock && (name == "events" || name == "a missing block") {
						require.Error(t, err)
						continue
					}
					require.NoError(t, err)
					require.Equal(t, string(r.Event), string(one.Event))
					require.Equal(t, inBlock || i%2 == 0, one.Private == nil)
				}
				bobs, err := w.CountSubject(t.Context(), "tnt_a", key.Hash("tnt_a", "bob"))
				require.NoError(t, err)
				kept := 100 - second.texts/2
				if name == "events" {
					kept = 100
				}
				require.InDelta(t, kept, bobs.PrivateParts, 1)
			})
		}
	}
}

// TestRemovingFromADamagedBlock keeps nobody from loading: a copy at a lower position replaces a row, and another is
// retracted. Both are gone from the rows, and their private parts from the files.
func TestRemovingFromADamagedBlock(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			w, rows, second := damagedBlocks(t, folder, damage)
			require.NoError(t, w.Close())
			var said bytes.Buffer
			w, err := Open(t.Context(), Config{Path: filepath.Join(folder, "warehouse.db"), Logger: slog.New(slog.NewTextHandler(&said, nil))})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, w.Close()) })
			replaced, retracted := rows[second.first-1], rows[second.first]
			replaced.Position, replaced.Private = conform.Place(0), nil
			require.NoError(t, w.Load(t.Context(), pipeline.Batch{Partition: 3, From: conform.Place(0), Rows: []pipeline.Row{replaced}, Next: conform.Place(1)}))
			release := conform.Shown("tnt_a", 300, "", "{}")
			release.Type, release.Delivery, release.Private = pipeline.TypeReleased, nil, nil
			release.SubjectKind, release.SubjectID = pipeline.KindRecord, retracted.Position.String()
			b := batchOf(release)
			b.Quarantined = []pipeline.Quarantined{{Position: retracted.Position, TenantID: "tnt_a", EventID: retracted.EventID, Reason: "forged", Record: []byte{1}}}
			require.NoError(t, w.Load(t.Context(), b))
			require.Contains(t, said.String(), map[bool]string{true: "missing", false: "block 2"}[name == "a missing block"])
			one, err := w.Event(t.Context(), "tnt_a", replaced.EventID)
			require.NoError(t, err)
			require.Equal(t, replaced.Position, one.Position)
			require.Equal(t, replaced.Event, one.Event)
			_, err = w.Event(t.Context(), "tnt_a", retracted.EventID)
			require.ErrorIs(t, err, pipeline.ErrNoEvent)
			n, err := w.CountEvents(t.Context(), "tnt_a")
			require.NoError(t, err)
			require.EqualValues(t, len(rows), n, "one less, and the release")
			require.NoError(t, w.emptyLog(t.Context()))
			require.Zero(t, pieces(t, folder, second.private, privateFrames(t, w)))
		})
	}
}

// TestClosingIsNoDamage: a transaction that still runs deletes nothing because the warehouse is being closed.
func TestClosingIsNoDamage(t *testing.T) {
	w, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "warehouse.db")})
	require.NoError(t, err)
	require.NoError(t, w.Erase(t.Context(), pipeline.SubjectKey{4}, nil))
	require.NoError(t, w.Load(t.Context(), batchOf(conform.Shown("tnt_a", 1, "ada", `{}`))))
	b := blocksOf(t, w)[1][0]
	require.NoError(t, w.Close())
	_, _, err = b.all(w.codec)
	require.Error(t, err)
	require.False(t, isDamage(err))
}
