package verify

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
)

// answerReader reads JSON with any spacing and order, whose objects have exactly the members
// that the caller names. It keeps the first fault, with the JSON pointer to it; after a fault
// the values that it returns have no meaning.
type answerReader struct{ fault error }

// answer reads the one value of a file, and takes its data out of the HTTP answer around it,
// which has the members ok, data and contractVersion. A value with neither ok nor data is the
// data. at is the JSON pointer to the data. It fails if the file is no JSON, or the answer to a
// refused request.
func (r *answerReader) answer(text []byte, version string) (at string, data map[string]jsontext.Value, err error) {
	in := jsontext.NewDecoder(bytes.NewReader(text))
	v, err := in.ReadValue() // refuses names that are there twice
	switch {
	case err == io.EOF:
		return "", nil, errors.New("it is empty")
	case err != nil:
		return "", nil, err
	}
	v = v.Clone()
	if _, err := in.ReadToken(); err != io.EOF {
		return "", nil, fmt.Errorf("more behind it, at byte %d", in.InputOffset())
	}
	members := r.members("", v)
	_, answered := members["data"]
	_, judged := members["ok"]
	if !answered && !judged {
		return "", members, nil
	}
	var refused refusal
	if json.Unmarshal(text, &refused) == nil && refused.refused() != nil {
		return "", nil, refused.refused()
	}
	r.exactly("", members, "ok", "data", "contractVersion")
	if string(members["ok"]) != "true" {
		r.fail("/ok", "want true")
	}
	if r.name("/contractVersion", members["contractVersion"]) != version {
		r.fail("/contractVersion", "want %q", version)
	}
	return "/data", r.members("/data", members["data"]), nil
}

// refusal is what an HTTP answer without data says.
type refusal struct {
	OK      *bool  `json:"ok"`
	Code    string `json:"error"`
	Message string `json:"message"`
}

func (r *refusal) refused() error {
	if r.OK == nil || *r.OK {
		return nil
	}
	if r.Code == "" {
		return errors.New("it says itself that the request was refused")
	}
	return fmt.Errorf("the answer to a request that was refused: %s: %s", r.Code, r.Message)
}

func (r *answerReader) fail(at, format string, args ...any) {
	if r.fault == nil {
		r.fault = fmt.Errorf("%q: %s", at, fmt.Sprintf(format, args...))
	}
}

func (r *answerReader) members(at string, v jsontext.Value) (members map[string]jsontext.Value) {
	if v.Kind() != '{' || json.Unmarshal(v, &members) != nil {
		r.fail(at, "want an object")
	}
	return members
}

func (r *answerReader) exactly(at string, members map[string]jsontext.Value, names ...string) {
	for _, name := range names {
		if _, there := members[name]; !there {
			r.fail(at+"/"+name, "it is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(names, name) {
			r.fail(at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), "there is no such member")
		}
	}
}

// some is exactly, but the others may be absent.
func (r *answerReader) some(at string, members map[string]jsontext.Value, required []string, others ...string) {
	for _, name := range others {
		if _, there := members[name]; there {
			required = append(slices.Clip(required), name)
		}
	}
	r.exactly(at, members, required...)
}

func (r *answerReader) list(at string, v jsontext.Value) (list []jsontext.Value) {
	if v.Kind() != '[' || json.Unmarshal(v, &list) != nil {
		r.fail(at, "want a list")
	}
	return list
}

func (r *answerReader) name(at string, v jsontext.Value) string {
	if v.Kind() == '"' {
		if s, err := jsontext.AppendUnquote(nil, v); err == nil && len(s) > 0 {
			return string(s)
		}
	}
	r.fail(at, "want a non-empty string")
	return ""
}

// canonical is the RFC 8785 text of a value.
func (r *answerReader) canonical(at string, v jsontext.Value) []byte {
	text, err := canonical.JSON(v)
	if err != nil {
		r.fail(at, "%v", err)
	}
	return text
}

// signature reads {"algorithm":…,"keyId":…,"value":…}.
func (r *answerReader) signature(at string, v jsontext.Value) (keyID string, value []byte) {
	m := r.members(at, v)
	r.exactly(at, m, "algorithm", "keyId", "value")
	if a := r.name(at+"/algorithm", m["algorithm"]); a != sealer.Algorithm {
		r.fail(at+"/algorithm", "want %q", sealer.Algorithm)
	}
	value, err := canonical.DecodeBase64(r.name(at+"/value", m["value"]), ed25519.SignatureSize)
	if err != nil {
		r.fail(at+"/value", "%v", err)
	}
	return r.name(at+"/keyId", m["keyId"]), value
}

// integer reads a whole number of 0 to 2^53 in any spelling.
func (r *answerReader) integer(at string, v jsontext.Value) int64 {
	text, err := canonical.JSON(v)
	n, ok := wholeNumber(text)
	if err != nil || !ok {
		r.fail(at, "want a whole number")
	}
	return n
}

// wholeNumber reads the RFC 8785 text of a whole number of 0 to 2^53.
func wholeNumber(text []byte) (int64, bool) {
	n, err := strconv.ParseUint(string(text), 10, 64)
	return int64(n), err == nil && n <= 1<<53
}

func (r *answerReader) time(at string, v jsontext.Value) time.Time {
	t, err := canonical.ParseTime(r.name(at, v))
	if err != nil {
		r.fail(at, "%v", err)
	}
	return t
}

func (r *answerReader) nullTime(at string, v jsontext.Value) *time.Time {
	if v.Kind() == 'n' {
		return nil
	}
	t := r.time(at, v)
	return &t
}

// What an HTTP answer has before and behind its data.
const (
	startOfAnswer = `{"ok":true,"data":`
	endOfAnswer   = `,"contractVersion":"v1.0"}`
)

// unwrap returns the data of an HTTP answer, or a text that is no answer as it is.
func unwrap(text string) string {
	if data, ok := strings.CutPrefix(text, startOfAnswer); ok {
		if data, ok = strings.CutSuffix(data, endOfAnswer); ok {
			return data
		}
	}
	return text
}

// readNote reads a signed note: its text, or the HTTP answer {"checkpoint":NOTE}.
func readNote(text string) (string, error) {
	if !strings.HasPrefix(text, startOfAnswer) {
		return text, nil
	}
	return checkpoint.ParseNote(unwrap(text))
}
