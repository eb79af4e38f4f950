package canonical

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAppendNumber has the samples of RFC 8785, appendix B.
func TestAppendNumber(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		require.Equal(t, want, string(AppendNumber(nil, math.Float64frombits(bits))))
	}
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{` {"b":1.0,"a":[true , null,1e2]} `, `{"a":[true,null,100],"b":1}`},
		// The sorting sample of RFC 8785: by UTF-16 code units.
		{
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
		{`"\u00e9\/\u2028"`, "\"é/\u2028\""},
		{`1.7976931348623157e308`, `1.7976931348623157e+308`},
		{`1e-400`, `0`},
	} {
		got, err := JSON([]byte(c.in))
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, string(got))
		require.True(t, IsJSON(got))
	}
	for _, bad := range []string{
		``, `{`, `{"a":1}x`, `1e400`, `{"a":[-1e999]}`, `{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, "\"\xff\"", `"\ud800"`, `01`, `NaN`,
	} {
		_, err := JSON([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestCanonicalOfGoValues(t *testing.T) {
	got, err := JSON(map[string]any{"rightId": "rgh_1", "at": 1.5, "list": []string{}})
	require.NoError(t, err)
	require.Equal(t, `{"at":1.5,"list":[],"rightId":"rgh_1"}`, string(got))
	_, err = JSON(math.Inf(1))
	require.Error(t, err)
}

func TestCanonicalKeepsItsInput(t *testing.T) {
	in := []byte(`{"b":1,"a":2}`)
	_, err := JSON(in)
	require.NoError(t, err)
	require.Equal(t, `{"b":1,"a":2}`, string(in))
}

func TestBase64IsStrict(t *testing.T) {
	for _, bad := range []string{"AA==", "AB", "A", "AA\n", "A\nA", "+/", "AAA", ""} {
		_, err := DecodeBase64(bad, 1)
		require.ErrorIs(t, err, ErrNotCanonical, "%q", bad)
	}
	b, err := DecodeBase64("_w", 1)
	require.NoError(t, err)
	require.Equal(t, []byte{0xff}, b)
}

// TestBase64IsCheckedAsItIsDecoded: the check that allocates nothing is the same.
func TestBase64IsCheckedAsItIsDecoded(t *testing.T) {
	require.False(t, IsBase64("A\nA", 2), "the decoder skips line breaks")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 48).Draw(t, "n")
		text := []byte(Base64.EncodeToString(rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "raw")))
		if n > 0 && rapid.Bool().Draw(t, "spoil") {
			text[rapid.IntRange(0, len(text)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("AB_-=+/\n\x00\xff")).Draw(t, "by")
		}
		size := rapid.SampledFrom([]int{n, n, n, 16, 32}).Draw(t, "asked")
		_, err := DecodeBase64(string(text), size)
		require.Equal(t, err == nil, IsBase64(string(text), size), "%q", text)
	})
}

// TestTimesAreRFC3339 holds the writer by hand against the one that knows layouts.
func TestTimesAreRFC3339(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
		zone := time.FixedZone("", rapid.IntRange(-12*3600, 14*3600).Draw(t, "zone"))
		at := time.Unix(rapid.Int64Range(first, last).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nano")).In(zone)
		require.Equal(t, FormatTime(at), string(AppendTime(nil, at)))
		back, err := ParseTime(FormatTime(at))
		require.NoError(t, err)
		require.Equal(t, at.Truncate(time.Millisecond).UTC(), back, "a reader takes what a writer writes")
	})
	for _, text := range []string{"0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"} {
		at, err := ParseTime(text)
		require.NoError(t, err)
		require.Equal(t, text, string(AppendTime(nil, at)))
	}
}

func TestTimes(t *testing.T) {
	at := time.Date(2026, 11, 21, 4, 5, 6, 789_999_999, time.FixedZone("", 3600))
	require.Equal(t, "2026-11-21T03:05:06.789Z", FormatTime(at))
	require.Equal(t, FormatTime(at), string(AppendTime(nil, at)))
	back, err := ParseTime("2026-11-21T03:05:06.789Z")
	require.NoError(t, err)
	require.Equal(t, at.UnixMilli(), back.UnixMilli())
	for _, bad := range []string{
		"", "2026-11-21T03:05:06Z", "2026-11-21T03:05:06,789Z", "2026-11-21T03:05:06.7890Z", "2026-11-21 03:05:06.789Z",
		"2026-11-21T03:05:06.789+00:00", "2026-02-30T03:05:06.789Z", "2026-11-21T24:00:00.000Z", "2026-11-21T03:05:60.000Z", "2026-11-21t03:05:06.789z", "0000-12-31T23:59:59.999Z",
		"2026-11-21T03:05:06.+78Z", "2026-11-21T03:05:06.-00Z",
	} {
		_, err := ParseTime(bad)
		require.Error(t, err, bad)
	}
}
