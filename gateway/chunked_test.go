package gateway

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chunkedHead is the head of a request with a chunked body.
func chunkedHead(method, path, token string, headers ...string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer " + token + "\r\n" +
		strings.Join(append(headers, "Transfer-Encoding: chunked"), "\r\n") + "\r\n\r\n"
}

// inChunks is a body in chunks of a size.
func inChunks(body string, size int) string {
	var b strings.Builder
	for ; body != ""; body = body[min(size, len(body)):] {
		part := body[:min(size, len(body))]
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(part), part)
	}
	return b.String() + "0\r\n\r\n"
}

func TestChunkedBodies(t *testing.T) { everyTransport(t, chunkedBodies) }

func chunkedBodies(t *testing.T, transport func(*settings)) {
	w := newWorld(t, transport)
	s := w.session()
	head := chunkedHead("POST", pathDelivery, w.token)
	whole := w.body()
	for name, text := range map[string]string{
		"one chunk":             inChunks(whole, len(whole)),
		"a byte a chunk":        inChunks(whole, 1),
		"large":                 inChunks(w.large(), 60_000),
		"large, in many chunks": inChunks(w.large(), 1000),
		"the longest":           inChunks(whole+strings.Repeat(" ", maxDeliveryBody-len(whole)), 5000),
		"upper case":            fmt.Sprintf("%X\r\n%s\r\n0\r\n\r\n", len(whole), whole),
		"leading zeros":         fmt.Sprintf("%016x\r\n%s\r\n0000000000000000\r\n\r\n", len(whole), whole),
		"trailers":              strings.TrimSuffix(inChunks(whole, 20), "\r\n") + "X-Checksum: 1\r\nIdempotency-Key:\r\nAuthorization: none\r\n\r\n",
	} {
		require.Equal(t, 200, s.do(head+text).status, name)
	}
	many := strings.Replace(head, "Transfer-Encoding: chunked", "tRANSFER-eNCODING: \t Chunked \t", 1)
	require.Equal(t, 200, s.do(many+inChunks(whole, 30)).status, "another case, and space around it")
	require.Equal(t, 200, s.do(request(w.token, whole)).status)
	require.Len(t, w.log.All(), 10)
}

// TestPipelinedChunks: the next request begins where the chunked body ends.
func TestPipelinedChunks(t *testing.T) { everyTransport(t, pipelinedChunks) }

func pipelinedChunks(t *testing.T, transport func(*settings)) {
	w := newWorld(t, transport)
	s := w.session()
	head := chunkedHead("POST", pathDelivery, w.token)
	trailers := "0\r\nX: y\r\n\r\n"
	_, err := io.WriteString(s.conn, head+inChunks(w.body(), 7)+head+inChunks("{", 1)+request(w.token, w.large())+head+inChunks(w.large(), 999)+
		"GET /v1/healthz HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\n\r\n"+trailers+head+trailers+request(w.token, w.body()))
	require.NoError(t, err)
	for _, want := range []int{200, 400, 200, 200, 200, 400, 200} {
		require.Equal(t, want, readReply(t, s.in).status)
	}
}

// TestChunksInPieces ends what the node has read at each byte in turn.
func TestChunksInPieces(t *testing.T) {
	w := newWorld(t, nil)
	s := w.session()
	coded := strings.TrimSuffix(inChunks(w.body(), 40), "\r\n") + "X: y\r\n\r\n"
	for at := range len(coded) {
		_, err := io.WriteString(s.conn, chunkedHead("POST", pathDelivery, w.token)+coded[:at])
		require.NoError(t, err)
		r := s.do(coded[at:])
		require.Equal(t, 200, r.status, "%d: %s", at, r.body)
	}
}

// TestSmuggling sends what two servers may read differently, and behind it a request. Each is
// answered once, with an error, and the connection ends: nothing of it is taken for a request.
func TestSmuggling(t *testing.T) { everyTransport(t, smuggling) }

func smuggling(t *testing.T, transport func(*settings)) {
	w := newWorld(t, transport)
	coded := func(headers ...string) string {
		return strings.Replace(chunkedHead("POST", pathDelivery, w.token, headers...), "Transfer-Encoding: chunked\r\n", "", 1)
	}
	head := chunkedHead("POST", pathDelivery, w.token)
	body := w.body()
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	for _, c := range []struct {
		name, text string
		status     int
		message    string
	}{
		{"length that is refused by the path as it came", "POST /beacon/../v1/rights HTTP/1.1\r\nHost: m\r\nContent-Length: 38\r\n\r\nGET /v1/healthz HTTP/1.1\r\nHost: m\r\n\r\n", 413, "larger"},
		{"length that is refused by the path as it came, of a batch", "POST /v1/delivery/ingest%2Dbatch HTTP/1.1\r\nHost: m\r\nAuthorization: Bearer " + w.token + "\r\nContent-Length: 2000000\r\n\r\nGET /v1/healthz HTTP/1.1\r\nHost: m\r\n\r\n", 413, "larger"},
		{"size that overflows 64 bits", head + "10000000000000002\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"size that overflows 32 bits", head + "100000002\r\n{}\r\n0\r\n\r\n", 413, "larger"},
		{"size that is negative", head + "ffffffffffffffff\r\n{}\r\n0\r\n\r\n", 413, "larger"},
		{"leading zeros without end", head + strings.Repeat("0", 100_000) + "2\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"zeros without end", head + chunk + strings.Repeat("0", 100_000) + "\r\n\r\n", 400, "chunk"},
		{"extension", head + "2;a=b\r\n{}\r\n0\r\n\r\n", 400, "extensions"},
		{"extension without a name", head + "2;\r\n{}\r\n0\r\n\r\n", 400, "extensions"},
		{"extension with LF", head + "2;\n{}\r\n0\r\n\r\n", 400, "extensions"},
		{"extension of the last chunk", head + chunk + "0;a\r\n\r\n", 400, "extensions"},
		{"extension of 100 KB", head + "2;" + strings.Repeat("x", 100_000) + "\r\n{}\r\n0\r\n\r\n", 400, "extensions"},
		{"LF behind the size", head + "2\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"LF behind the data", head + "2\r\n{}\n0\r\n\r\n", 400, "chunk"},
		{"CR behind the size", head + "2\r{}\r\n0\r\n\r\n", 400, "chunk"},
		{"CR CR LF behind the size", head + "2\r\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"nothing behind the data", head + "2\r\n{}0\r\n\r\n", 400, "chunk"},
		{"more data than its size", head + "2\r\n{}}\r\n0\r\n\r\n", 400, "chunk"},
		{"space before the size", head + " 2\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"space behind the size", head + "2 \r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"tab behind the size", head + "2\t\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"space before an extension", head + "2 ;a\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"0x", head + "0x2\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"sign", head + "+2\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"underscore", head + "0_2\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"no size", head + "\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"no size, LF", head + "\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"NUL", head + "2\x00\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"digit that is not ASCII", head + "\xef\xbc\x92\r\n{}\r\n0\r\n\r\n", 400, "chunk"},
		{"LF behind the last size", head + chunk + "0\n\r\n", 400, "chunk"},
		{"LF for the end", head + chunk + "0\r\n\n", 400, "trailers"},
		{"no end, but a request", head + chunk + "0\r\n", 400, "trailers"},
		{"trailer with LF", head + chunk + "0\r\nX: y\n\r\n", 400, "trailers"},
		{"trailer with CR", head + chunk + "0\r\nX: y\rz\r\n\r\n", 400, "trailers"},
		{"trailer with a control character", head + chunk + "0\r\nX: \x01\r\n\r\n", 400, "trailers"},
		{"trailer with DEL", head + chunk + "0\r\nX: y\x7f\r\n\r\n", 400, "trailers"},
		{"trailer that is folded", head + chunk + "0\r\nX: y\r\n z\r\n\r\n", 400, "trailers"},
		{"trailer without a name", head + chunk + "0\r\n: y\r\n\r\n", 400, "trailers"},
		{"trailer without a colon", head + chunk + "0\r\nX\r\n\r\n", 400, "trailers"},
		{"trailers of 100 KB", head + chunk + "0\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n", 400, "trailers"},
		{"one byte too many", head + inChunks(strings.Repeat(" ", maxDeliveryBody+1), 1000), 413, "larger"},

		{"length and coding", coded("Content-Length: 4", "Transfer-Encoding: chunked") + "0\r\n\r\n", 400, "must not have"},
		{"coding and length", coded("transfer-encoding: chunked", "content-length: 4") + "0\r\n\r\n", 400, "must not have"},
		{"length 0 and coding", coded("Content-Length: 0", "Transfer-Encoding: chunked") + chunk + "0\r\n\r\n", 400, "must not have"},
		{"coding twice", coded("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + chunk + "0\r\n\r\n", 400, ""},
		{"coding twice, one unknown", coded("Transfer-Encoding: chunked", "Transfer-Encoding: x") + chunk + "0\r\n\r\n", 400, ""},
		{"identity, then chunked", coded("Transfer-Encoding: identity", "Transfer-Encoding: chunked") + chunk + "0\r\n\r\n", 400, ""},
		{"coding twice in one header", coded("Transfer-Encoding: chunked, chunked") + chunk + "0\r\n\r\n", 400, ""},
		{"gzip and chunked", coded("Transfer-Encoding: gzip, chunked") + chunk + "0\r\n\r\n", 400, ""},
		{"gzip", coded("Transfer-Encoding: gzip") + chunk + "0\r\n\r\n", 400, ""},
		{"identity", coded("Transfer-Encoding: identity") + chunk + "0\r\n\r\n", 400, "coding"},
		{"no coding", coded("Transfer-Encoding:") + chunk + "0\r\n\r\n", 400, ""},
		{"chunked with a parameter", coded("Transfer-Encoding: chunked;a=b") + chunk + "0\r\n\r\n", 400, ""},
		{"chunked in quotes", coded(`Transfer-Encoding: "chunked"`) + chunk + "0\r\n\r\n", 400, ""},
		{"xchunked", coded("Transfer-Encoding: xchunked") + chunk + "0\r\n\r\n", 400, ""},
		{"vertical tab", coded("Transfer-Encoding: \x0bchunked") + chunk + "0\r\n\r\n", 400, ""},
		{"space before the colon", coded("Transfer-Encoding : chunked") + chunk + "0\r\n\r\n", 400, ""},
		{"folded coding", coded("Transfer-Encoding:\r\n chunked") + chunk + "0\r\n\r\n", 400, ""},
		{"coding behind LF", coded("X: y\nTransfer-Encoding: chunked") + chunk + "0\r\n\r\n", 400, "coding"},
		{"coding before LF", coded("Transfer-Encoding: chunked\nX: y") + chunk + "0\r\n\r\n", 400, "coding"},
		{"HTTP/1.0", strings.Replace(head, "HTTP/1.1", "HTTP/1.0", 1) + chunk + "0\r\n\r\n", 400, ""},
		{"HTTP/1.0 that is kept", strings.Replace(coded("Connection: keep-alive", "Transfer-Encoding: chunked"), "HTTP/1.1", "HTTP/1.0", 1) + chunk + "0\r\n\r\n", 400, ""},
		{"trailer that would change the framing", coded("Trailer: Content-Length", "Transfer-Encoding: chunked") + chunk + "0\r\nContent-Length: 5\r\n\r\n", 400, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			conn := w.dial()
			defer conn.Close()
			_, err := io.WriteString(conn, c.text+"GET /v1/healthz HTTP/1.1\r\nHost: m\r\n\r\n")
			require.NoError(t, err)
			in := bufio.NewReader(conn)
			r := readReply(t, in)
			require.Equal(t, c.status, r.status, r.body)
			requireEnvelope(t, r)
			require.Contains(t, r.body, c.message)
			require.True(t, r.closes)
			_, err = in.ReadByte()
			require.Equal(t, io.EOF, err)
		})
	}
	require.Empty(t, w.log.All())
}

// TestChunksThatEndEarly: neither a body that is cut off nor one that is too slow is delivered.
func TestChunksThatEndEarly(t *testing.T) { everyTransport(t, chunksThatEndEarly) }

func chunksThatEndEarly(t *testing.T, transport func(*settings)) {
	const timeout = 500 * time.Millisecond
	hasty := newWorld(t, func(c *settings) { transport(c); c.ReadTimeout = timeout })
	w := newWorld(t, transport)
	whole := inChunks(w.body(), 40)
	for _, part := range []int{0, 20, len(whole) - 2} {
		r := hasty.tooSlow(chunkedHead("POST", pathDelivery, hasty.token) + whole[:part])
		require.Equal(t, 408, r.status, "%d: %s", part, r.body)
		require.True(t, r.closes)
		requireEnvelope(t, r)

		c := w.dial()
		_, err := io.WriteString(c, chunkedHead("POST", pathDelivery, w.token)+whole[:part])
		require.NoError(t, err)
		require.NoError(t, c.(interface{ CloseWrite() error }).CloseWrite())
		text, err := io.ReadAll(c)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.Contains(t, string(text), "HTTP/1.1 400 ", "%d", part)
	}
	require.Empty(t, hasty.log.All())
	require.Empty(t, w.log.All())
}

// TestForwardedChunks: control gets a length, and no trailers.
func TestForwardedChunks(t *testing.T) {
	var seen *http.Request
	var body []byte
	w := newWorld(t, withControl(t, func(_ http.ResponseWriter, r *http.Request) {
		seen = r
		body, _ = io.ReadAll(r.Body)
	}))
	s := w.session()
	for _, length := range []int{0, 5, maxBody} {
		sent := strings.Repeat("x", length)
		coded := strings.TrimSuffix(inChunks(sent, 10_000), "\r\n") + "Authorization: Bearer other\r\nX-Late: 1\r\n\r\n"
		require.Equal(t, 200, s.do(chunkedHead("PUT", "/v1/rights", "k", "Trailer: X-Late", "TE: trailers")+coded).status)
		require.Equal(t, sent, string(body))
		require.EqualValues(t, length, seen.ContentLength)
		require.Empty(t, seen.TransferEncoding)
		require.Equal(t, []string{"Bearer k"}, seen.Header.Values("Authorization"))
		require.Empty(t, seen.Trailer)
		require.NotContains(t, seen.Header, "X-Late")
	}
	require.Equal(t, 413, s.do(chunkedHead("PUT", "/v1/rights", "k")+inChunks(strings.Repeat("x", maxBody+1), 10_000)).status)
}

// TestChunkedBatches: a batch's key is checked before its body is read, and its memory is counted as
// it arrives.
func TestChunkedBatches(t *testing.T) {
	w := newWorld(t, nil)
	s := w.session()
	head := chunkedHead("POST", pathBatch, w.token)
	rows := inJSON(w.row("a", ""))
	require.Equal(t, []string{"accepted"}, statuses(w.ingested(s.do(head+inChunks(rows, 7)))))
	require.Equal(t, []string{"duplicate"}, statuses(w.ingested(s.do(head+inChunks(rows+strings.Repeat(" ", maxBatchBody-len(rows)), 100_000)))))
	require.Equal(t, 413, s.do(head+inChunks(strings.Repeat(" ", maxBatchBody+1), 100_000)).status)
	require.Zero(t, w.metric("muniment_gateway_batch_bytes", ""))
	require.Equal(t, 401, w.raw(chunkedHead("POST", pathBatch, "nobody")+"1").status)
}

func TestMemoryFollowsChunks(t *testing.T) {
	for _, sent := range []int{1, bodyStep, 100_000} {
		var a arrival
		whole := fmt.Sprintf("%x\r\n%s", maxBody, make([]byte, sent))
		require.Error(t, a.receiveChunks(bytes.NewReader([]byte(whole)), maxBody))
		require.LessOrEqual(t, cap(a.body), 3*max(bodyStep, sent))
	}
}

// FuzzChunks: what is read is as Go's own reader has it, and ends at the same byte.
func FuzzChunks(f *testing.F) {
	for _, text := range []string{"0\r\n\r\n", "2\r\n{}\r\n0\r\nX: y\r\n\r\n", "002\r\n{}\r\n00\r\n\r\nrest", "A\r\n0123456789\r\n0\r\n\r\n", "1;a\r\nx\r\n0\r\n\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var a arrival
		from := strings.NewReader(text)
		if a.receiveChunks(from, 1000) != nil {
			return
		}
		in := bufio.NewReader(strings.NewReader("POST / HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\n\r\n" + text))
		r, err := http.ReadRequest(in)
		require.NoError(t, err)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		require.Equal(t, string(body), string(a.body))
		left, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, string(left), text[len(text)-from.Len():])
	})
}
