//go:build independent

package independent_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/dsar"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/verify"
)

// bundleFormats are those of bundles, each with a table of three rows.
func bundleFormats(tb testing.TB) map[string][]byte {
	type row struct {
		ID    string            `parquet:"id"`
		Share *float64          `parquet:"share,optional"`
		Names []string          `parquet:"names,list"`
		More  map[string]string `parquet:"more"`
	}
	var text bytes.Buffer
	w := parquet.NewGenericWriter[row](&text, parquet.MaxRowsPerRowGroup(2))
	_, err := w.Write([]row{{ID: "a", Names: []string{"x", "y"}}, {ID: "b", More: map[string]string{"k": "v"}}, {}})
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return map[string][]byte{
		"JSON": []byte("[\n{\"a\":1},\n{\"a\":\"\\n\"},\n{}\n]\n"), "NDJSON": []byte("{\"a\":1}\n{}\n{}\n"),
		"CSV": []byte("\ufeffa,b\r\n1,\"x\r\n\"\"y\"\"\r\n, z\"\r\n,\r\n\"\"\"\",2\r\n"), "PARQUET": text.Bytes(),
	}
}

// bundle is a bundle of personal data, signed by a key.
func (s *service) bundle(key ed25519.PrivateKey, format string, table []byte, change ...func(*dsar.Manifest)) []byte {
	var text bytes.Buffer
	w := dsar.NewWriter(&text)
	for name, content := range map[string][]byte{"events": table} {
		file, err := w.File(name+"."+format, format == "PARQUET")
		require.NoError(s, err)
		_, err = file.Write(content)
		require.NoError(s, err)
		w.Rows(3)
	}
	readme, err := w.File(dsar.ReadmeName, false)
	require.NoError(s, err)
	_, err = io.WriteString(readme, "This is an export.\n")
	require.NoError(s, err)
	at := epoch.AddDate(0, 6, 0)
	m := dsar.Manifest{AsOf: "0-1", CreatedAt: canonical.FormatTime(at), Directory: s.directory(at), Format: format, JobID: s.id("dsr_", at), Kind: "DATA_SUBJECT", Pending: map[string]int64{"nod:0": 1}, TenantID: s.id("tnt_", at)}
	for _, c := range change {
		c(&m)
	}
	_, _, err = w.Close(m, &sealer.Signer{KeyID: keyID(key), Key: key})
	require.NoError(s, err)
	return text.Bytes()
}

// rezip writes the files of a bundle into a zip file again, as change has them, the last of which is its manifest.
func (s *service) rezip(bundle []byte, change func(files []zipped) []zipped) []byte {
	r, err := zip.NewReader(bytes.NewReader(bundle), int64(len(bundle)))
	require.NoError(s, err)
	var files []zipped
	for _, f := range r.File {
		raw, err := f.OpenRaw()
		require.NoError(s, err)
		content, err := io.ReadAll(raw)
		require.NoError(s, err)
		files = append(files, zipped{zip.FileHeader{
			Name: f.Name, Method: f.Method, Flags: 8, CreatorVersion: 20, ReaderVersion: 20, CRC32: f.CRC32,
			CompressedSize64: f.CompressedSize64, UncompressedSize64: f.UncompressedSize64,
		}, content})
	}
	var text bytes.Buffer
	w := zip.NewWriter(&text)
	for _, f := range change(files) {
		to, err := w.CreateRaw(&f.FileHeader)
		require.NoError(s, err)
		_, err = to.Write(f.packed)
		require.NoError(s, err)
	}
	require.NoError(s, w.Close())
	return text.Bytes()
}

type zipped struct {
	zip.FileHeader
	packed []byte
}

// retold is a bundle whose manifest states something else, signed by a key.
func (s *service) retold(bundle []byte, key ed25519.PrivateKey, change func(m object)) []byte {
	return s.rezip(bundle, func(files []zipped) []zipped {
		last := &files[len(files)-1]
		m := s.parse(last.packed).in("manifest")
		m["signingKeyId"] = keyID(key)
		change(m)
		text := s.canonical(m)
		last.stored(fmt.Appendf(nil, `{"manifest":%s,"signature":%s}`, text, s.canonical(signature(key, text))))
		return files
	})
}

// stored has a file hold these bytes, as they are.
func (f *zipped) stored(text []byte) {
	f.packed, f.Method, f.CRC32 = text, zip.Store, crc32.ChecksumIEEE(text)
	f.CompressedSize64, f.UncompressedSize64 = uint64(len(text)), uint64(len(text))
}

// deflated has a file hold these bytes, compressed.
func (f *zipped) deflated(text []byte) {
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // memory takes all
	}
	f.stored(text)
	f.packed, f.Method, f.CompressedSize64 = packed.Bytes(), zip.Deflate, uint64(packed.Len())
}

// TestBundles: both verifiers come to one verdict on bundles of personal data, for one of the same reasons: whole, with a
// false statement that is properly signed, in a hostile zip file, and with any of their bytes changed.
func TestBundles(t *testing.T) {
	s := newService(t, "bundles")
	f := newFolder(t, s)
	elsewhere := *s
	elsewhere.root, _ = s.rootKey("root.independent")
	tables := bundleFormats(t)
	whole := s.bundle(s.sealing, "NDJSON", tables["NDJSON"])
	var names, wants []string
	var sets [][]string
	add := func(name, want string, text []byte) {
		names, wants, sets = append(names, name), append(wants, want), append(sets, []string{f.put(text)})
	}
	for format, table := range tables {
		add(format, verify.VerdictSound, s.bundle(s.sealing, format, table))
		good := s.bundle(s.sealing, format, table)
		add(format+" of a sandbox", verify.VerdictSound, s.bundle(s.sandbox, format, table))
		add(format+" with a row more", verify.VerdictUnsound, s.retold(good, s.sealing, func(m object) { object(m.list("files")[0].(map[string]any))["rows"] = 4 }))
		broken := bytes.Clone(table[:len(table)-5])
		add(format+" that is cut", verify.VerdictUnsound, s.bundle(s.sealing, format, broken))
	}
	for name, table := range map[string]string{"a bare quote": "a,b\n1,2\"\n3,4\n5,6\n", "a field more": "a,b\n1,2\n3,4,\n5,6\n", "text behind a quote": "a\n\"1\"2\n3\n4\n"} {
		add("CSV with "+name, verify.VerdictUnsound, s.bundle(s.sealing, "CSV", []byte(table)))
	}
	add("of no rows by its format", verify.VerdictUnsound, s.bundle(s.sealing, "XML", tables["NDJSON"]))

	file := func(m object, i int) object { return m.list("files")[i].(map[string]any) }
	for name, lie := range map[string]func(m object){
		"other bytes":           func(m object) { file(m, 0).add("bytes", 1) },
		"other packed bytes":    func(m object) { file(m, 0).add("packedBytes", -1) },
		"bytes below zero":      func(m object) { file(m, 0)["bytes"] = -1 },
		"another hash":          func(m object) { file(m, 0)["sha256"] = merkle.Hash(s.bytes(32)).String() },
		"another packed hash":   func(m object) { file(m, 0)["packedSha256"] = merkle.Hash(s.bytes(32)).String() },
		"rows of the README":    func(m object) { file(m, 1)["rows"] = 1 },
		"another name":          func(m object) { file(m, 0)["name"] = "../../events" },
		"a file less":           func(m object) { m["files"] = m.list("files")[:1] },
		"a file twice":          func(m object) { m["files"] = append(m.list("files"), file(m, 0)) },
		"another order":         func(m object) { m["files"] = []any{file(m, 1), file(m, 0)} },
		"another version":       func(m object) { m["v"] = 2 },
		"a further member":      func(m object) { m["x"] = 1 },
		"no tenant":             func(m object) { delete(m, "tenantId") },
		"a fraction":            func(m object) { m.in("pending")["nod:0"] = 0.5 },
		"no moment":             func(m object) { m["createdAt"] = "2026-09-01T00:00:00Z" },
		"a moment before":       func(m object) { m["createdAt"] = canonical.FormatTime(epoch.Add(-time.Millisecond)) },
		"no directory":          func(m object) { m["directory"] = object{} },
		"a changed directory":   func(m object) { m.in("directory")["snapshotId"] = "another" },
		"the key of its author": func(m object) { m["signingKeyId"] = keyID(s.newKey()) },
	} {
		add("a manifest with "+name, verify.VerdictUnsound, s.retold(whole, s.sealing, lie))
	}
	same := func(object) {}
	foreign := s.retold(whole, s.sealing, func(m object) { m["directory"] = s.parse(elsewhere.directory(epoch)) })
	add("a manifest with a stranger's keys", verify.VerdictUnjudged, foreign)
	add("a manifest with a stranger's keys, beside ours", verify.VerdictUnsound, foreign)
	sets[len(sets)-1] = append(sets[len(sets)-1], f.put(s.directory(epoch)))
	add("signed by a node", verify.VerdictUnsound, s.retold(whole, s.nodes[0].Key.(ed25519.PrivateKey), same))
	add("signed by nobody's key", verify.VerdictUnjudged, s.retold(whole, s.newKey(), same))
	add("of after the delegation", verify.VerdictUnjudged, s.retold(whole, s.sealing, func(m object) { m["createdAt"] = canonical.FormatTime(s.until) }))
	other := newService(t, "another service")
	add("another service's", verify.VerdictUnjudged, other.bundle(other.sealing, "NDJSON", tables["NDJSON"]))

	zeros := make([]byte, 64<<20)
	for name, change := range map[string]func(files []zipped) []zipped{
		"a bomb": func(z []zipped) []zipped { z[0].deflated(zeros); return z },
		"a bomb of the stated size": func(z []zipped) []zipped {
			n := z[0].UncompressedSize64
			z[0].deflated(zeros)
			z[0].UncompressedSize64 = n
			return z
		},
		"a file under a path":          func(z []zipped) []zipped { z[0].Name = "../../etc/passwd"; return z },
		"a file twice":                 func(z []zipped) []zipped { return append([]zipped{z[0]}, z...) },
		"another order":                func(z []zipped) []zipped { return []zipped{z[1], z[0], z[2]} },
		"another's method":             func(z []zipped) []zipped { z[1].Method = 12; return z },
		"a comment":                    func(z []zipped) []zipped { z[1].Comment = "x"; return z },
		"an extra field":               func(z []zipped) []zipped { z[1].Extra = []byte{9, 9, 0, 0}; return z },
		"a time":                       func(z []zipped) []zipped { z[1].ModifiedDate = 1; return z },
		"another's flags":              func(z []zipped) []zipped { z[1].Flags |= 0x800; return z },
		"another sum":                  func(z []zipped) []zipped { z[0].CRC32++; return z },
		"two manifests":                func(z []zipped) []zipped { return append(z, z[2]) },
		"a manifest first":             func(z []zipped) []zipped { return []zipped{z[2], z[0], z[1]} },
		"a compressed manifest":        func(z []zipped) []zipped { z[2].deflated(z[2].packed); return z },
		"a manifest that is a bomb":    func(z []zipped) []zipped { z[2].deflated(zeros); return z },
		"a manifest of too many bytes": func(z []zipped) []zipped { z[2].stored(zeros[:dsar.MaxManifestBytes+1]); return z },
		"a manifest of nothing":        func(z []zipped) []zipped { z[2].stored(nil); return z },
	} {
		add("a zip file with "+name, verify.VerdictUnsound, s.rezip(whole, change))
	}
	add("a zip file without a manifest", verify.VerdictUnjudged, s.rezip(whole, func(z []zipped) []zipped { return z[:2] }))
	add("something before it", verify.VerdictUnsound, append(bytes.Clone(whole[:30]), whole...))
	add("something behind it", verify.VerdictUnsound, append(bytes.Clone(whole), whole[:30]...))
	many := bytes.Clone(whole)
	binary.LittleEndian.PutUint32(many[len(many)-6:], 1<<31) // where its directory begins
	add("a directory beyond its end", verify.VerdictUnsound, many)
	step := 7
	if os.Getenv("MUNIMENT_TEST_FULL") != "" {
		step = 1
	}
	for i := 0; i < len(whole); i += step {
		changed := bytes.Clone(whole)
		changed[i] ^= 1 << s.IntN(8)
		add(fmt.Sprintf("byte %d", i), "", changed)
	}
	// Files that are longer than a disk, of which nothing but the length is there.
	sparse := f.put(whole)
	require.NoError(t, os.Truncate(sparse, 1<<40))
	names, wants, sets = append(names, "a sparse file"), append(wants, verify.VerdictUnsound), append(sets, []string{sparse})

	seen := map[string]int{}
	for i, theirs := range stranger(t, f.root, sets) {
		us := ours(t, f.root, sets[i])
		require.Equal(t, us[0].Verdict, theirs[0].Verdict, "%s: sealer %v, verify.py %v", names[i], us[0].Codes, theirs[0].Codes)
		if wants[i] != "" {
			require.Equal(t, wants[i], us[0].Verdict, "%s: %v", names[i], us[0].Codes)
		} else {
			require.NotEqual(t, verify.VerdictSound, us[0].Verdict, names[i])
		}
		if !us[0].OK {
			require.Subset(t, us[0].Codes, theirs[0].Codes, names[i])
		}
		require.Equal(t, us[0].Sandbox, theirs[0].Sandbox, names[i])
		seen[us[0].Verdict]++
	}
	text, err := json.Marshal(seen)
	require.NoError(t, err)
	t.Logf("%d bundles: %s", len(sets), text)
}

// holes writes a file, but leaves out zeros that it is given in long pieces.
type holes struct {
	*os.File
	zeros []byte
}

func (h holes) Write(p []byte) (int, error) {
	if len(p) < len(h.zeros) || !bytes.Equal(p, h.zeros[:len(p)]) {
		return h.File.Write(p)
	}
	_, err := h.Seek(int64(len(p)), io.SeekCurrent)
	return len(p), err
}

// TestLongBundle: a bundle with numbers that need Zip64 is sound.
func TestLongBundle(t *testing.T) {
	if os.Getenv("MUNIMENT_TEST_FULL") == "" {
		t.Skip("both read 4 GiB; MUNIMENT_TEST_FULL is not set")
	}
	s := newService(t, "long bundle")
	f := newFolder(t, s)
	zeros := make([]byte, 1<<20)
	name := f.put(nil)
	out, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer out.Close()
	w := dsar.NewWriter(holes{out, zeros})
	section, err := w.File("events.parquet", true)
	require.NoError(t, err)
	for range 1<<12 + 1 {
		_, err = section.Write(zeros)
		require.NoError(t, err)
	}
	_, err = w.File(dsar.ReadmeName, false)
	require.NoError(t, err)
	at := epoch.AddDate(0, 6, 0)
	_, _, err = w.Close(dsar.Manifest{CreatedAt: canonical.FormatTime(at), Directory: s.directory(at)}, &sealer.Signer{KeyID: keyID(s.sealing), Key: s.sealing})
	require.NoError(t, err)
	us, theirs := ours(t, f.root, []string{name}), stranger(t, f.root, [][]string{{name}})
	require.Equal(t, verify.VerdictSound, us[0].Verdict, us[0].Codes)
	require.Equal(t, verify.VerdictSound, theirs[0][0].Verdict, theirs[0][0].Codes)
}
