package sealer_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/sealertest"
)

// randomString mixes what a canonicaliser may stumble over.
func randomString(r *rand.Rand) string {
	alphabet := []rune("aZ0 \"\\/\b\f\n\r\t\x00\x1f\x7fé€ \u0080\u2028\ufeff\U0001F600\U0010FFFF<>&")
	var b []rune
	for range r.IntN(12) {
		if r.IntN(8) == 0 {
			b = append(b, rune(r.IntN(0xD800)))
		} else {
			b = append(b, alphabet[r.IntN(len(alphabet))])
		}
	}
	return string(b)
}

// randomNumber draws from all binary exponents, and from what dwells look like.
func randomNumber(r *rand.Rand) float64 {
	switch r.IntN(4) {
	case 0:
		return float64(r.IntN(100_000))
	case 1:
		return float64(r.IntN(100_000)) / 8
	case 2:
		return float64(r.IntN(999)) * math.Pow10(r.IntN(40)-20)
	}
	for {
		if f := math.Float64frombits(r.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
}

func randomReceipt(r *rand.Rand) sealer.Receipt {
	optional := func() *string {
		if r.IntN(2) == 0 {
			return nil
		}
		s := randomString(r)
		return &s
	}
	return sealer.Receipt{
		ReceiptID: randomString(r), CorrelationID: optional(), SpatialAnchorID: randomString(r), SpatialPlacementID: optional(),
		IssuedAt: time.UnixMilli(r.Int64N(1 << 47)).UTC(), RenderedAt: time.UnixMilli(r.Int64N(1 << 47)).UTC(),
		DwellMs: randomNumber(r), Nonce: randomString(r), Witness: optional(),
	}
}

// TestReceiptIsCanonical compares with two canonicalisers that know nothing of receipts.
func TestReceiptIsCanonical(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var buf []byte
	for range sealertest.Rounds(10_000, 1_000_000) {
		receipt := randomReceipt(r)
		buf = sealer.AppendReceipt(buf[:0], &receipt)

		// Members in another order and with escapes of another writer.
		loose, err := json.Marshal(struct {
			Version            string  `json:"version"`
			ReceiptID          string  `json:"receiptId"`
			CorrelationID      *string `json:"correlationId"`
			SpatialAnchorID    string  `json:"spatialAnchorId"`
			SpatialPlacementID *string `json:"spatialPlacementId"`
			IssuedAt           string  `json:"issuedAt"`
			RenderedAt         string  `json:"renderedAt"`
			DwellMs            float64 `json:"dwellMs"`
			Nonce              string  `json:"nonce"`
			Witness            *string `json:"witness"`
		}{
			"1", receipt.ReceiptID, receipt.CorrelationID, receipt.SpatialAnchorID, receipt.SpatialPlacementID,
			canonical.FormatTime(receipt.IssuedAt), canonical.FormatTime(receipt.RenderedAt), receipt.DwellMs, receipt.Nonce, receipt.Witness,
		}, jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true))
		require.NoError(t, err)

		byJCS, err := jcs.Transform(loose)
		require.NoError(t, err)
		byJSONText := jsontext.Value(loose)
		require.NoError(t, byJSONText.Canonicalize())
		if !bytes.Equal(buf, byJCS) || !bytes.Equal(buf, byJSONText) {
			require.Equal(t, string(byJCS), string(buf))
			require.Equal(t, string(byJSONText), string(buf))
		}

		parsed, err := sealer.ParseReceipt(buf)
		require.NoError(t, err)
		require.Equal(t, buf, sealer.AppendReceipt(nil, &parsed))
	}
}

func TestAppendReceiptAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	receipt := randomReceipt(r)
	buf := make([]byte, 0, 4096)
	require.Zero(t, testing.AllocsPerRun(1000, func() { buf = sealer.AppendReceipt(buf[:0], &receipt) }))
}

// TestParseReceiptIsStrict changes one thing at a time.
func TestParseReceiptIsStrict(t *testing.T) {
	w := sealertest.NewWorld(t)
	_, _, receipt := w.Draft(2)
	good := string(sealer.AppendReceipt(nil, receipt))
	_, err := sealer.ParseReceipt([]byte(good))
	require.NoError(t, err)
	for name, change := range map[string][2]string{
		"space":              {`,"dwellMs"`, `, "dwellMs"`},
		"trailing newline":   {`"witness":null}`, "\"witness\":null}\n"},
		"version":            {`"version":"1"`, `"version":"2"`},
		"version as number":  {`"version":"1"`, `"version":1`},
		"number with zero":   {`"dwellMs":3000.5`, `"dwellMs":3000.50`},
		"number as exponent": {`"dwellMs":3000.5`, `"dwellMs":3.0005e3`},
		"number too large":   {`"dwellMs":3000.5`, `"dwellMs":1e400`},
		"no number":          {`"dwellMs":3000.5`, `"dwellMs":`},
		"long escape":        {`trace\t2`, `trace\u00092`},
		"escaped solidus":    {`anchor/2`, `anchor\/2`},
		"raw control":        {`trace\t2`, "trace\t2"},
		"bad UTF-8":          {`anchor/2`, "anchor/\xff"},
		"lone surrogate":     {`anchor/2`, `anchor\ud800`},
		"open string":        {`"witness":null}`, `"witness":"\`},
		"seconds only":       {`.000Z","nonce"`, `Z","nonce"`},
		"comma in time":      {`.000Z","nonce"`, `,000Z","nonce"`},
		"another zone":       {`.000Z","nonce"`, `.000+00:00","nonce"`},
		"extra member":       {`"witness":null`, `"witness":null,"x":1`},
		"twice":              {`"version":"1"`, `"version":"1","version":"1"`},
	} {
		bad := string(bytes.Replace([]byte(good), []byte(change[0]), []byte(change[1]), 1))
		require.NotEqual(t, good, bad, name)
		_, err := sealer.ParseReceipt([]byte(bad))
		require.ErrorIs(t, err, canonical.ErrNotCanonical, name)
	}
}

func BenchmarkAppendReceipt(b *testing.B) {
	w := sealertest.NewWorld(b)
	_, _, receipt := w.Draft(2)
	buf := make([]byte, 0, 4096)
	for b.Loop() {
		buf = sealer.AppendReceipt(buf[:0], receipt)
	}
}
