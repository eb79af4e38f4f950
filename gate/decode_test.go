package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func TestFaults(t *testing.T) {
	const (
		notBoolean = "must be true or false"
		notNumber  = "must be a number from 0 to 9007199254740992"
		notText    = "must be a string of at most 256 bytes"
	)
	long := strings.Repeat("x", 257)
	for _, c := range []struct{ telemetry, field, message string }{
		{`{"remoteIdActive":null}`, "telemetry.remoteIdActive", notBoolean},
		{`{"remoteIdActive":0}`, "telemetry.remoteIdActive", notBoolean},
		{`{"remoteIdActive":"false"}`, "telemetry.remoteIdActive", notBoolean},
		{`{"viewable":[true]}`, "telemetry.viewable", notBoolean},
		{`{"viewable":{"viewable":true}}`, "telemetry.viewable", notBoolean},
		{`{"v\u0069ewable":1}`, "telemetry.viewable", notBoolean},
		{`{"speedMph":null}`, "telemetry.speedMph", notNumber},
		{`{"speedMph":"5"}`, "telemetry.speedMph", notNumber},
		{`{"speedMph":-1e-300}`, "telemetry.speedMph", notNumber},
		{`{"speedMph":1e400}`, "telemetry.speedMph", notNumber},
		{`{"speedMph":-1e400}`, "telemetry.speedMph", notNumber},
		{`{"speedMph":9007199254740994}`, "telemetry.speedMph", notNumber},
		{`{"dwellInViewMs":-0.5}`, "telemetry.dwellInViewMs", notNumber},
		{`{"weatherAttenuationDb":true}`, "telemetry.weatherAttenuationDb", "must be a number from -9007199254740992 to 9007199254740992"},
		{`{"weatherAttenuationDb":-1e16}`, "telemetry.weatherAttenuationDb", "must be a number from -9007199254740992 to 9007199254740992"},
		{`{"linkState":"Lost"}`, "telemetry.linkState", "must be one of acquired, degraded, lost"},
		{`{"linkState":""}`, "telemetry.linkState", "must be one of acquired, degraded, lost"},
		{`{"linkState":null}`, "telemetry.linkState", "must be one of acquired, degraded, lost"},
		{`{"beamId":null}`, "telemetry.beamId", notText},
		{`{"beamId":7}`, "telemetry.beamId", notText},
		{`{"beamId":"` + long + `"}`, "telemetry.beamId", notText},
		{`{"beamId":"` + strings.Repeat(`\u0041`, 257) + `"}`, "telemetry.beamId", notText},
		{`{"beamId":"` + strings.Repeat(`\u0041`, 10_000) + `"}`, "telemetry.beamId", notText},
		{`{"beamId":"` + strings.Repeat("é", 129) + `"}`, "telemetry.beamId", notText},
		{`{"bvlosWaiverId":"` + long + `"}`, "telemetry.bvlosWaiverId", "must be null or a string of at most 256 bytes"},
		{`{"bvlosWaiverId":false}`, "telemetry.bvlosWaiverId", "must be null or a string of at most 256 bytes"},
		{`[]`, "telemetry", "must be an object"},
		{`null`, "telemetry", "must be an object"},
		{`"{}"`, "telemetry", "must be an object"},
	} {
		_, faults := decode(t, c.telemetry)
		require.Equal(t, []Fault{{c.field, c.message}}, faults, c.telemetry)
	}
}

// Every fault is reported, in the order of the text, and none lost of before.
func TestFaultsAccumulate(t *testing.T) {
	before := []Fault{{"dwellMs", "must be a number"}}
	var tel Telemetry
	faults, err := tel.Decode(decoderOf(`{"viewable":1,"optOut":1,"speedMph":"x","vendor":null,"linkState":3}`), before)
	require.NoError(t, err)
	var named []string
	for _, f := range faults {
		named = append(named, f.Field)
	}
	require.Equal(t, []string{"dwellMs", "telemetry.viewable", "telemetry.speedMph", "telemetry.linkState"}, named)
}

func TestBoundsAreInclusive(t *testing.T) {
	for _, telemetry := range []string{
		`{"speedMph":9007199254740992,"dwellInViewMs":0,"weatherAttenuationDb":-9007199254740992}`,
		`{"beamId":"` + strings.Repeat("x", 256) + `","coverageCellId":"` + strings.Repeat("é", 128) + `"}`,
		`{"groundStationId":"` + strings.Repeat(`\u0041`, 256) + `","spectrumBand":""}`,
		`{"bvlosWaiverId":null}`,
		` {"speedMph" : 1.5e0 } `,
	} {
		mustDecode(t, telemetry)
	}
}

// Extensions never are a fault, whatever they hold; all of them are counted.
func TestExtensionsAreNeverAFault(t *testing.T) {
	for _, value := range []string{`null`, `1e400`, `"` + strings.Repeat("x", 1000) + `"`, `[[[]]]`, `{"a":{"speedMph":-1}}`, `"\ud83d\ude00"`} {
		for f := optOut; f < fieldCount; f++ {
			tel := mustDecode(t, fmt.Sprintf(`{%q:%s,"vendor":%s}`, fields[f].name, value, value))
			require.Equal(t, 2, tel.Extra())
			require.Equal(t, `{}`, string(tel.AppendProjection(nil)))
		}
	}
	for _, name := range []string{"SPEEDMPH", "speedmph", "speedMph ", "", `\u0000`, strings.Repeat("s", 5000), strings.Repeat(`\u0073`, 5000)} {
		tel := mustDecode(t, `{"`+name+`":-1}`)
		require.Equal(t, 1, tel.Extra(), name)
		require.Zero(t, tel.given, name)
	}
	require.Zero(t, mustDecode(t, headsetText[:len(headsetText)-len(`,"neuralDataConsent":true,"vendor":{"build":[1,2,3]}}`)]+"}").Extra())
}

func TestDecodeReturnsTheDecodersError(t *testing.T) {
	for _, telemetry := range []string{
		``, `{`, `{"speedMph"`, `{"speedMph":`, `{"speedMph":1`, `{"speedMph":1,}`, `{"speedMph":01}`, `{"speedMph":NaN}`, `{speedMph:1}`, `nul`,
		`{"speedMph":1,"speedMph":2}`, `{"speedMph":1,"sp\u0065edMph":2}`, `{"vendor":{"a":1,"a":2}}`,
		"{\"beamId\":\"\xff\"}", `{"beamId":"\ud800"}`,
	} {
		var tel Telemetry
		_, err := tel.Decode(decoderOf(telemetry), nil)
		require.Error(t, err, telemetry)
	}
	var tel Telemetry
	_, err := tel.Decode(decoderOf(`{"speedMph":1,"speedMph":2}`), nil)
	require.ErrorIs(t, err, jsontext.ErrDuplicateName)
	broken := errors.New("broken")
	_, err = tel.Decode(jsontext.NewDecoder(io.MultiReader(strings.NewReader(`{"speedMph":`), failing{broken})), nil)
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// The telemetry is one member among others, and Decode reads no more than it.
func TestDecodeConsumesExactlyOneValue(t *testing.T) {
	for _, value := range []string{`{"speedMph":4,"vendor":[1]}`, `{}`, `[1,2]`, `7`} {
		d := decoderOf(`{"telemetry":` + value + `,"next":1}`)
		for range 2 {
			_, err := d.ReadToken()
			require.NoError(t, err)
		}
		var tel Telemetry
		_, err := tel.Decode(d, nil)
		require.NoError(t, err)
		next, err := d.ReadToken()
		require.NoError(t, err)
		require.Equal(t, "next", next.String())
	}
}

// Nothing of the text is kept: a caller may overwrite its buffer at once. And
// nothing of one observation is left for the next.
func TestTelemetryOwnsItsTexts(t *testing.T) {
	p := pooled{text: []byte(`{"footprintRegion":"CA","groundStationId":"g\u00e9","bvlosWaiverId":"W"}`)}
	p.decode(t)
	for i := range p.buf.Bytes() {
		p.buf.Bytes()[i] = '#'
	}
	copy(p.text, strings.Repeat("#", len(p.text)))
	require.Equal(t, `{"footprintRegion":"CA","groundStationId":"gé"}`, string(p.tel.AppendProjection(nil)))

	p.text = []byte(`{"viewable":true,"vendor":1}`)
	p.decode(t)
	require.Equal(t, `{"viewable":true}`, string(p.tel.AppendProjection(nil)))
	require.Equal(t, 1, p.tel.Extra())
	p.tel.Reset()
	require.Zero(t, p.tel.Extra())
	require.Equal(t, `{}`, string(p.tel.AppendProjection(nil)))
	require.Equal(t, Evaluate(&Right{Substrate: Drone}, new(Telemetry), 1), Evaluate(&Right{Substrate: Drone}, &p.tel, 1))
}

// Whatever is sent, what is kept for reuse stays small.
func TestScratchStaysSmall(t *testing.T) {
	var tel Telemetry
	for range 50 {
		text := `{"beamId":"` + strings.Repeat(`\u0041`, 10_000) + `","` + strings.Repeat(`\u0041`, 10_000) + `":1,"spectrumBand":"` + strings.Repeat("x", 60_000) + `"}`
		faults, err := tel.Decode(decoderOf(text), nil)
		require.NoError(t, err)
		require.Len(t, faults, 2)
	}
	require.LessOrEqual(t, cap(tel.scratch), 16<<10)
}

func decoderOf(text string) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBufferString(text))
}

// FuzzTelemetry holds the decoder against any text: it agrees with jsontext on
// what is JSON, its answer does not depend on what it decoded before, and
// whatever passes keeps the promises of the gate.
func FuzzTelemetry(f *testing.F) {
	for _, v := range readVectors(f).Vectors {
		f.Add([]byte(v.Telemetry))
	}
	for _, text := range []string{headsetText, minorText, `{"optOut":{"a":[]},"substrate":"DRONE"}`, `{"bvlosWaiverId":"\u0020"}`, `{"sp\u0065edMph":5}`, `{"speedMph":1e400}`, `[]`, `{"a":1,"a":2}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var fresh, reused Telemetry
		faults, err := fresh.Decode(jsontext.NewDecoder(bytes.NewBuffer(text)), nil)
		value, plainErr := jsontext.NewDecoder(bytes.NewBuffer(text)).ReadValue()
		require.Equal(t, plainErr == nil, err == nil, "%v %v", plainErr, err)
		if err != nil {
			return
		}
		_, _ = reused.Decode(decoderOf(headsetText), nil)
		again, err := reused.Decode(jsontext.NewDecoder(bytes.NewBuffer(value)), nil)
		require.NoError(t, err)
		require.Equal(t, faults, again)
		if len(faults) > 0 {
			return
		}
		require.Equal(t, fresh.stated, reused.stated)
		projected := fresh.AppendProjection(nil)
		require.Equal(t, string(projected), string(reused.AppendProjection(nil)))
		checkProjection(t, &fresh, projected)
		for s := range Substrate(Substrates) {
			right := &Right{Substrate: s, Regions: []string{"US"}, BVLOS: true}
			v := Evaluate(right, &fresh, 1500)
			require.Equal(t, v.Refused(), len(v.Violations(right, &fresh)) > 0)
			for _, x := range v.Violations(right, &fresh) {
				require.True(t, jsontext.Value(x.AppendJSON(nil)).IsValid())
			}
			m := v.Meter(&fresh, 1500)
			require.Equal(t, m.Metered, m.Basis != BasisNone)
			require.False(t, m.Metered && v.Refused())
		}
	})
}
