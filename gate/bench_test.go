package gate

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// Observations as they come from the field: one of a headset, with every kind of
// value, and one of a car.
const (
	headsetText = `{"headsetWorn":true,"immersionLevel":"mixed","passthroughActive":true,"roomScaleBounded":true,` +
		`"boundaryProximity":"inside","locomotionState":"seated","comfortVectionRisk":"low","lightingState":"ok",` +
		`"visibilityState":"visible","spatialAnchorPersistent":true,"geoAnchored":true,"occlusionResolved":true,` +
		`"fovPresence":true,"gazeInView":true,"dwellInViewMs":1830.5,"eyeTrackingConsent":true,` +
		`"spatialMappingConsent":true,"bystanderCaptureRisk":"none","linkState":"acquired","beamId":"b-17",` +
		`"coverageCellId":"c-\u0039","footprintRegion":"CA","weatherAttenuationDb":-0.5,"remoteIdActive":true,` +
		`"speedMph":0,"viewable":true,"completionState":"midpoint","audible":true,"appState":"foreground",` +
		`"neuralDataConsent":true,"vendor":{"build":[1,2,3]}}`
	minorText = `{"minorMode":true,"speedMph":65,"locomotionState":"in_vehicle","immersionLevel":"full","viewable":true,"linkState":"acquired"}`
)

// pooled is a decoder as a caller holds it: nothing of it is made anew.
type pooled struct {
	text    []byte
	buf     bytes.Buffer
	decoder jsontext.Decoder
	tel     Telemetry
}

func (p *pooled) decode(t testing.TB) {
	p.buf.Reset()
	p.buf.Write(p.text)
	p.decoder.Reset(&p.buf)
	if faults, err := p.tel.Decode(&p.decoder, nil); err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	p := pooled{text: []byte(headsetText)}
	p.decode(t)
	dst := make([]byte, 0, 2048)
	right := &Right{Substrate: Any, Regions: []string{"US", "CA"}, MaxSpeedMph: 3, HasMaxSpeed: true, BVLOS: true}
	for name, step := range map[string]func(){
		"Decode":           func() { p.decode(t) },
		"AppendProjection": func() { dst = p.tel.AppendProjection(dst[:0]) },
		"Evaluate and Meter": func() {
			for right.Substrate = range Substrate(Substrates) {
				v := Evaluate(right, &p.tel, 1999.5)
				dst = v.Meter(&p.tel, 1999.5).Reasons.AppendJSON(dst[:0])
			}
		},
	} {
		require.Zero(t, testing.AllocsPerRun(200, step), name)
	}
	require.NotEqual(t, "{}", string(p.tel.AppendProjection(nil)))
}

func BenchmarkEvaluate(b *testing.B) {
	for s := range Substrate(Substrates) {
		b.Run(s.String(), func(b *testing.B) {
			tel := mustDecode(b, headsetText)
			right := &Right{Substrate: s, Regions: []string{"US", "CA"}}
			b.ReportAllocs()
			for b.Loop() {
				Evaluate(right, tel, 4200)
			}
		})
	}
	b.Run("ANY for a minor", func(b *testing.B) {
		tel := mustDecode(b, minorText)
		right := &Right{Substrate: Any}
		b.ReportAllocs()
		for b.Loop() {
			Evaluate(right, tel, 4200)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	p := pooled{text: []byte(headsetText)}
	b.ReportAllocs()
	for b.Loop() {
		p.decode(b)
	}
}

func BenchmarkAppendProjection(b *testing.B) {
	tel := mustDecode(b, headsetText)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = tel.AppendProjection(dst[:0])
	}
}
