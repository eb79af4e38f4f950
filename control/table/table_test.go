package table

import (
	"bytes"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

var columns = []Column{
	{Name: "z", Type: Text, Optional: true}, {Name: "n", Type: Integer}, {Name: "f", Type: Number, Optional: true}, {Name: "b", Type: Boolean},
	{Name: "doc", Type: Document, Optional: true}, {Name: "at", Type: Moment, Optional: true}, {Name: "day", Type: Day},
	{Name: "short", Type: Decimal, Precision: 18, Scale: 4}, {Name: "long", Type: Decimal, Precision: 38, Scale: 6, Optional: true},
	{Name: "who", Type: Texts}, {Name: "parts", Type: Decimals, Precision: 38, Scale: 6},
}

// of returns what a format makes of rows.
func of(t *testing.T, f Format, rows ...[]any) string {
	t.Helper()
	var out bytes.Buffer
	w := f.New(&out, columns, f == CSV)
	for _, row := range rows {
		require.NoError(t, w.Write(row))
	}
	require.NoError(t, w.Close())
	return out.String()
}

var (
	noon = time.Date(2026, 12, 1, 12, 0, 0, 123_000_000, time.FixedZone("", 14*60*60)) // in UTC it is the day before
	full = []any{"=1+1", int64(-1), 0.5, true, `{"a":1}`, noon, noon, "2.5", "-9223372036854.775808", []string{"=a", "b"}, []string{"0.000001", "-12.5"}}
	bare = []any{nil, int64(0), nil, false, nil, nil, time.Unix(-1, 0), "0", nil, []string{}, []string{}}
)

// TestTexts: the formats that are texts have each type as it is documented, CSV no formulas, and numbers stay numbers.
func TestTexts(t *testing.T) {
	want := `{"z":"=1+1","n":-1,"f":0.5,"b":true,"doc":{"a":1},"at":"2026-11-30T22:00:00.123Z","day":"2026-11-30","short":"2.5","long":"-9223372036854.775808","who":["=a","b"],"parts":["0.000001","-12.5"]}`
	empty := `{"z":null,"n":0,"f":null,"b":false,"doc":null,"at":null,"day":"1969-12-31","short":"0","long":null,"who":[],"parts":[]}`
	require.Equal(t, want+"\n"+empty+"\n", of(t, NDJSON, full, bare))
	require.Equal(t, "[\n"+want+",\n"+empty+"\n]\n", of(t, JSON, full, bare))
	require.Equal(t, "\ufeffz,n,f,b,doc,at,day,short,long,who,parts\n"+
		`'=1+1,-1,0.5,true,"{""a"":1}",2026-11-30T22:00:00.123Z,2026-11-30,2.5,-9223372036854.775808,"[""=a"",""b""]","[""0.000001"",""-12.5""]"`+"\n"+
		",0,,false,,,1969-12-31,0,,[],[]\n", of(t, CSV, full, bare))
	active := []any{"a\x1b[2J\u009b", int64(0), nil, false, `{"a":"\u001b` + "\u202e" + `"}`, nil, time.Unix(-1, 0), "0", nil, []string{"\u2028\a"}, []string{}}
	require.Equal(t, "\ufeffz,n,f,b,doc,at,day,short,long,who,parts\n"+`a\u001b[2J\u009b,0,,false,"{""a"":""\u001b\u202e""}",,1969-12-31,0,,"[""\u2028\u0007""]",[]`+"\n", of(t, CSV, active))
	require.Equal(t, "[\n]\n", of(t, JSON))
	require.Empty(t, of(t, NDJSON))
}

// TestParquetTypes: columns have the order and the types of the table, and each value comes back.
func TestParquetTypes(t *testing.T) {
	text := of(t, Parquet, full, bare)
	file, err := parquet.OpenFile(bytes.NewReader([]byte(text)), int64(len(text)))
	require.NoError(t, err)
	require.Equal(t, `message row {
	optional binary z (STRING);
	required int64 n (INT(64,true));
	optional double f;
	required boolean b;
	optional binary doc (JSON);
	optional int64 at (TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS));
	required int32 day (DATE);
	required int64 short (DECIMAL(18,4));
	optional fixed_len_byte_array(16) long (DECIMAL(38,6));
	required group who (LIST) {
		repeated group list {
			required binary element (STRING);
		}
	}
	required group parts (LIST) {
		repeated group list {
			required fixed_len_byte_array(16) element (DECIMAL(38,6));
		}
	}
}`, file.Schema().String())
	rows := make([]parquet.Row, 2)
	n, _ := file.RowGroups()[0].Rows().ReadRows(rows)
	require.Equal(t, 2, n)
	got := make([]string, 2)
	for i := range rows {
		for _, v := range rows[i] {
			if v.Kind() == parquet.FixedLenByteArray {
				got[i] += string(rune('a' + v.ByteArray()[0]%2)) // the sign
				continue
			}
			got[i] += v.String() + " "
		}
	}
	require.Equal(t, `=1+1 -1 0.5 true {"a":1} `+"1796076000123 20787 25000 b=a b ab", got[0])
	require.Equal(t, "<null> 0 <null> false <null> <null> -1 0 <null> <null> <null> ", got[1])
	large := make([]byte, wide)
	for i := range 8 {
		large[i] = 0xff
	}
	large[8] = 0x80
	require.Equal(t, large, rows[0][8].ByteArray(), "two's complement")
}

// TestFaults: what a column can't hold is an error, and never another value.
func TestFaults(t *testing.T) {
	for name, change := range map[string]func(row []any){
		"no decimal":        func(row []any) { row[7] = "1e3" },
		"too fine":          func(row []any) { row[7] = "0.00001" },
		"too large":         func(row []any) { row[7] = "100000000000000" },
		"a sign alone":      func(row []any) { row[8] = "-" },
		"nil":               func(row []any) { row[1] = nil },
		"of a type unknown": func(row []any) { row[1] = 1 },
	} {
		row := append([]any{}, full...)
		change(row)
		require.Error(t, Parquet.New(&bytes.Buffer{}, columns, false).Write(row), name)
	}
}
