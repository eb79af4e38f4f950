package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"muniment.example/gateway/api"
)

// one is a listener of one connection.
type one struct{ conn chan net.Conn }

func (o one) Accept() (net.Conn, error) {
	if c, ok := <-o.conn; ok {
		return c, nil
	}
	return nil, io.EOF
}
func (o one) Close() error   { return nil }
func (o one) Addr() net.Addr { return new(net.TCPAddr) }

// FuzzForward: whatever is forwarded reaches a handler of control's. What is not is 400.
func FuzzForward(f *testing.F) {
	for _, head := range []string{
		"GET /v1/%zz HTTP/1.1\r\nHost: m\r\n", "GET http:///x HTTP/1.1\r\nHost: m\r\n", "GET /x HTTP/1.0\r\n", "OPTIONS * HTTP/1.1\r\nHost: a\"b\r\n",
		"CONNECT m:443 HTTP/1.1\r\nHost: m\r\n", "GET http://u:p@m//[x/y?u=a://b#c HTTP/1.1\r\nHost: n\r\n", "PUT /x HTTP/1.1\r\nHost: [::1%25a]:80\r\nCookie: a=b; c\r\n",
		"POST //a?b HTTP/1.1\r\nHost: m\r\nX Y: z\r\nTrailer: q\r\nConnection: X-Drop, close\r\nExpect: 100-continue\r\n", "PRI * HTTP/1.1\r\nHost: m\r\nUpgrade: h2c\r\n",
	} {
		f.Add(head)
	}
	g, _ := newBench(f)
	ours, theirs := net.Pipe()
	ln := one{make(chan net.Conn, 1)}
	ln.conn <- theirs
	const reached = http.StatusTeapot
	server := http.Server{DisableGeneralOptionsHandler: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(reached) })}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	f.Cleanup(func() {
		close(ln.conn)
		server.Close()
		<-ended
	})
	in := bufio.NewReader(ours)
	f.Fuzz(func(t *testing.T, head string) {
		var ctx fasthttp.RequestCtx
		if ctx.Request.Header.Read(bufio.NewReader(strings.NewReader(head+"\r\n"))) != nil || framingFault(&ctx.Request.Header, toControl) != nil ||
			new(fasthttp.URI).Parse(ctx.Request.Header.Host(), ctx.Request.Header.RequestURI()) != nil {
			return // the server refuses it
		}
		nameRequest(&ctx)
		var forwarded fasthttp.Request
		if err := g.control.prepare(&ctx, &forwarded); err != nil {
			e, ok := errors.AsType[*api.Error](err)
			require.True(t, ok, err)
			require.Equal(t, http.StatusBadRequest, e.GetStatus())
			return
		}
		sent := make(chan error, 1)
		go func() {
			out := bufio.NewWriter(ours)
			sent <- errors.Join(forwarded.Write(out), out.Flush())
		}()
		resp, err := http.ReadResponse(in, &http.Request{Method: string(forwarded.Header.Method())})
		require.NoError(t, err)
		require.NoError(t, <-sent)
		require.Equal(t, reached, resp.StatusCode, "%q", forwarded.Header.String())
		require.False(t, resp.Close, "%q", forwarded.Header.String())
	})
}
