package compare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadParts(t *testing.T) {
	const printed = `goos: linux
pkg: muniment.example/gate
BenchmarkEvaluate/DOOH-2         	77146226	        15.81 ns/op	       0 B/op	       0 allocs/op
BenchmarkEvaluate/DRONE-2        	43146226	        31.20 ns/op	       0 B/op	       0 allocs/op
BenchmarkEvaluate/ANY-2          	77146226	        15.81 ns/op	       0 B/op	       0 allocs/op
BenchmarkDecode-2                	 1000000	      9999 ns/op	       0 B/op	       0 allocs/op
BenchmarkAppendProjection-2      	 5000000	       231 ns/op	       0 B/op	       0 allocs/op
PASS
pkg: muniment.example/sealer
BenchmarkAppendReceipt           	 4000000	       280.0 ns/op
BenchmarkSealDelivery-2          	   60000	     18700 ns/op	     176 B/op	       4 allocs/op
BenchmarkSplitDelivery-2         	 5000000	       220.5 ns/op	       0 B/op	       0 allocs/op
pkg: muniment.example/gateway
BenchmarkSign-2                  	   70000	     17300 ns/op
BenchmarkHandler-2               	   50000	     24000 ns/op	     200 B/op	       7 allocs/op
pkg: muniment.example/gateway/issue
BenchmarkDecode-2                	  900000	      1300 ns/op	 450.00 MB/s	       0 B/op	       0 allocs/op
pkg: muniment.example/pipeline/segment
BenchmarkAppend/1-2              	    5000	    210000 ns/op	   4.7 MB/s	     40000 cpu-ns/op	       1 B/op	       0 allocs/op
BenchmarkAppend/256-2            	  900000	      2100 ns/op	 476.2 MB/s	      2345 cpu-ns/op	       3 B/op	       0 allocs/op
pkg: muniment.example/pipeline/sqlite
BenchmarkLoad-2                  	       8	 150000000 ns/op	     25000 rows/s
`
	file := filepath.Join(t.TempDir(), "parts.txt")
	require.NoError(t, os.WriteFile(file, []byte(printed), 0o600))
	all, err := ReadParts(file)
	require.NoError(t, err)
	var b strings.Builder
	writeParts(&b, all)
	for _, row := range []string{
		"| Ed25519 signature                      | 17.3 µs |             | `gateway` BenchmarkSign                |",
		"| decode of the body, telemetry included | 1.3 µs  | 0           | `gateway/issue` BenchmarkDecode        |",
		"| gate, slowest substrate                | 0.03 µs | 0           | `gate` BenchmarkEvaluate               |",
		"| canonical bytes of the receipt         | 0.28 µs |             | `sealer` BenchmarkAppendReceipt        |",
		"| log append, 256 writers, CPU           | 2.3 µs  | 0           | `pipeline/segment` BenchmarkAppend/256 |",
		"| load of a row into SQLite              | 40.0 µs |             | `pipeline/sqlite` BenchmarkLoad        |",
	} {
		require.Contains(t, b.String(), row+"\n")
	}

	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(printed, "BenchmarkHandler", "BenchmarkOther", 1)), 0o600))
	_, err = ReadParts(file)
	require.ErrorContains(t, err, "BenchmarkHandler")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(printed, "24000 ns/op", "24000 furlongs", 1)), 0o600))
	_, err = ReadParts(file)
	require.ErrorContains(t, err, "cannot read")
}
