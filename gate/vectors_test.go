package gate

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// vector is one case: a delivery, and all that can be seen of the answer to it.
type vector struct {
	ID         string
	Title      string
	Substrate  Substrate
	DwellMs    float64
	RightScope json.RawMessage
	Telemetry  json.RawMessage
	Expect     expectation
}

type expectation struct {
	Status               int
	Field                string // of the fault
	Violations           []string
	TightenedByMinorMode []string
	Metered              bool
	Reason               string
	SuppressReasons      []string
	Basis                string
	EffectiveSubstrate   *Substrate
	MeteringKeeps        []string
	MeteringDrops        []string
}

// matrixRow says on which rights exactly a trigger makes a code fire.
type matrixRow struct {
	Code      string
	Telemetry json.RawMessage
	DwellMs   float64
	FiresOn   []Substrate
}

type vectorFile struct {
	Version string
	Vectors []vector
	Matrix  []matrixRow
}

func readVectors(t testing.TB) vectorFile {
	text, err := os.ReadFile("testdata/gate-vectors.json")
	require.NoError(t, err)
	var file vectorFile
	require.NoError(t, json.Unmarshal(text, &file))
	return file
}

func decode(t require.TestingT, text string) (*Telemetry, []Fault) {
	var tel Telemetry
	if text == "" {
		return &tel, nil
	}
	faults, err := tel.Decode(jsontext.NewDecoder(bytes.NewBufferString(text)), nil)
	require.NoError(t, err, text)
	return &tel, faults
}

func mustDecode(t require.TestingT, text string) *Telemetry {
	tel, faults := decode(t, text)
	require.Empty(t, faults, text)
	return tel
}

func mustRight(t require.TestingT, s Substrate, scope string) *Right {
	r, err := ParseRight(s, []byte(scope))
	require.NoError(t, err)
	return &r
}

func TestVectors(t *testing.T) {
	file := readVectors(t)
	require.Equal(t, Version, file.Version)
	for _, v := range file.Vectors {
		t.Run(v.ID+" "+v.Title, func(t *testing.T) { v.check(t) })
	}
}

func (v *vector) check(t *testing.T) {
	tel, faults := decode(t, string(v.Telemetry))
	if v.Expect.Status == 422 {
		require.Len(t, faults, 1)
		require.Equal(t, v.Expect.Field, faults[0].Field)
		return
	}
	require.Empty(t, faults)

	right := mustRight(t, v.Substrate, string(v.RightScope))
	verdict := Evaluate(right, tel, v.DwellMs)
	codes, tightened := codesOf(verdict.Violations(right, tel))
	require.Equal(t, v.Expect.Violations, codes)
	require.ElementsMatch(t, v.Expect.TightenedByMinorMode, tightened)
	require.Equal(t, v.Expect.Status == 412, verdict.Refused())
	want := v.Substrate
	if v.Expect.EffectiveSubstrate != nil {
		want = *v.Expect.EffectiveSubstrate
	}
	require.Equal(t, want, verdict.Substrate)

	m := verdict.Meter(tel, v.DwellMs)
	require.Equal(t, v.Expect.Metered, m.Metered)
	require.Equal(t, v.Expect.Reason, m.Reason.String())
	if v.Expect.Status == 200 {
		require.Equal(t, v.Expect.SuppressReasons, m.Reasons.Strings())
		require.Equal(t, v.Expect.Basis, m.Basis.String())
	}
	var kept map[string]any
	require.NoError(t, json.Unmarshal(tel.AppendProjection(nil), &kept))
	for _, name := range v.Expect.MeteringKeeps {
		require.Contains(t, kept, name)
	}
	for _, name := range v.Expect.MeteringDrops {
		require.NotContains(t, kept, name)
	}
}

func codesOf(violations []Violation) (codes, tightened []string) {
	codes = []string{}
	for _, x := range violations {
		codes = append(codes, x.Code)
		if x.TightenedBy != "" {
			tightened = append(tightened, x.Code)
		}
	}
	return codes, tightened
}
