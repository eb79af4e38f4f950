package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const pythonSource = "gateway/client/python"

// pythonPackages writes the client for Python as a wheel and as a source distribution. It is written
// here, and not by Python's tools, so that its bytes depend on no library of the machine; a test holds
// the metadata against those that these tools make of the source distribution.
func (c *config) pythonPackages(string) error {
	version, err := pythonVersion(c.version)
	if err != nil {
		return err
	}
	files, err := readTree(pythonSource, "muniment_client")
	if err != nil {
		return err
	}
	for name := range files {
		if !strings.HasSuffix(name, ".py") && !strings.HasSuffix(name, "/py.typed") {
			delete(files, name) // what Python compiled
		}
	}
	const versioned = "muniment_client/version.py"
	if strings.Count(string(files[versioned]), `"`+unreleased+`"`) != 1 {
		return fmt.Errorf("%s does not have the version %s once", versioned, unreleased)
	}
	files[versioned] = bytes.Replace(files[versioned], []byte(`"`+unreleased+`"`), []byte(`"`+version+`"`), 1)
	project, err := os.ReadFile(pythonSource + "/pyproject.toml")
	if err != nil {
		return err
	}
	more := map[string][]byte{"pyproject.toml": project}
	if err := readInto(more, map[string]string{"README.md": pythonSource + "/README.md", "LICENSE": "LICENSE"}); err != nil {
		return err
	}
	metadata, err := pythonMetadata(string(project), version, string(more["README.md"]))
	if err != nil {
		return err
	}

	base := "muniment_client-" + version
	source := maps.Clone(files)
	maps.Copy(source, more)
	source["PKG-INFO"] = metadata
	if err := c.writeArchive(base+".tar.gz", gzip.BestCompression, base, source); err != nil {
		return err
	}

	info := base + ".dist-info/"
	files[info+"METADATA"] = metadata
	files[info+"licenses/LICENSE"] = more["LICENSE"]
	files[info+"top_level.txt"] = []byte("muniment_client\n")
	files[info+"WHEEL"] = []byte("Wheel-Version: 1.0\nGenerator: muniment\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
	var record strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[name]))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	files[info+"RECORD"] = []byte(record.String())
	wheel, err := zipped(c.at, files)
	if err != nil {
		return err
	}
	name := base + "-py3-none-any.whl"
	c.progress("  %s", name)
	return os.WriteFile(filepath.Join(c.out, name), wheel, 0o644)
}

// prerelease is the part of a tag that Python writes in its own way.
var prerelease = regexp.MustCompile(`^(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.(\d+))?$`)

// pythonVersion returns a tag as PEP 440 has it: v1.2.3-rc.1 is 1.2.3rc1.
func pythonVersion(tag string) (string, error) {
	m := prerelease.FindStringSubmatch(strings.TrimPrefix(tag, "v"))
	if m == nil {
		return "", fmt.Errorf("%s is no version for Python: what is behind the dash must be alpha.N, beta.N or rc.N", tag)
	}
	return m[1] + map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[2]] + m[3], nil
}

// pythonMetadata returns the core metadata of a project. It reads as much of pyproject.toml as that has:
// a line for each value, whose texts and lists are as JSON writes them.
func pythonMetadata(project, version, readme string) ([]byte, error) {
	var failed error
	value := func(name string, to any) {
		m := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(name)+` = (.*)$`).FindAllStringSubmatch(project, -1)
		if len(m) != 1 {
			failed = fmt.Errorf("pyproject.toml does not have %s once, on a line", name)
		} else if err := json.Unmarshal([]byte(m[0][1]), to); err != nil {
			failed = fmt.Errorf("cannot read %s of pyproject.toml: %w", name, err)
		}
	}
	var name, summary, licence, python string
	var keywords, classifiers, verify []string
	value("name", &name)
	value("description", &summary)
	value("license", &licence)
	value("requires-python", &python)
	value("keywords", &keywords)
	value("classifiers", &classifiers)
	value("verify", &verify)
	author := regexp.MustCompile(`(?m)^authors = \[\{ name = "([^"]+)" \}\]$`).FindStringSubmatch(project)
	if failed == nil && author == nil {
		failed = fmt.Errorf("pyproject.toml has no authors with one name")
	}
	if failed != nil {
		return nil, failed
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Metadata-Version: 2.4\nName: %s\nVersion: %s\nSummary: %s\nAuthor: %s\nLicense-Expression: %s\nKeywords: %s\n",
		name, version, summary, author[1], licence, strings.Join(keywords, ","))
	for _, c := range classifiers {
		fmt.Fprintf(&b, "Classifier: %s\n", c)
	}
	fmt.Fprintf(&b, "Requires-Python: %s\nDescription-Content-Type: text/markdown\nLicense-File: LICENSE\nProvides-Extra: verify\n", python)
	for _, v := range verify {
		fmt.Fprintf(&b, "Requires-Dist: %s; extra == \"verify\"\n", v)
	}
	fmt.Fprintf(&b, "Dynamic: license-file\n\n%s", readme)
	return []byte(b.String()), nil
}

// zipped returns files as a zip archive: sorted by name, of one time, and what is written for all of
// them depends on nothing else.
func zipped(at time.Time, files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.DefaultCompression) })
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if !at.IsZero() {
			h.Modified = at
		}
		h.SetMode(0o644)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write(files[name])
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
