package compare

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"muniment.example/gateway"
	"muniment.example/gateway/api"
	"muniment.example/gateway/issue"
	"muniment.example/pipeline"
	"muniment.example/pipeline/segment"
	"muniment.example/sealer"
)

// Bare is the server that the product is measured against: fasthttp, the
// gateway's own decoder, the receipt's canonical bytes, one Ed25519 signature.
// With a log it also appends what it answers, and answers when that is durable; a
// topic's are of as many tenants as the scaled service is measured with, round robin.
// It knows no keys, rights, rules or retries.
type Bare struct {
	Listen string `required:"" help:"Address that it serves."`
	Admin  string `required:"" help:"Address of /readyz and /debug/pprof."`
	Log    string `help:"Folder of its log; default: none."`

	// Topic is its log instead of a folder; nil is none. It stays the caller's.
	Topic pipeline.Appender `kong:"-"`
}

const (
	bareKeyID = "bare"
	bareToken = "bare" // opens its profiles
)

// bareKey is known to both sides: its receipts are checked like all others.
func bareKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

// Serve serves until ctx is done. Its first line on standard error names its
// addresses, as StartServer expects.
func (b *Bare) Serve(ctx context.Context) (err error) {
	gateway.DoubleProcs() // as muniment up does
	s := &bareServer{key: bareKey(), log: b.Topic, tenants: bareTenants()}
	s.pool.New = func() any { return new(bareWork) }
	if b.Log != "" {
		log, err := segment.Open(segment.Config{Dir: b.Log})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, log.Close()) }()
		s.log = log
	}
	ln, err := net.Listen("tcp", b.Listen)
	if err != nil {
		return err
	}
	defer ln.Close()
	adminLn, err := net.Listen("tcp", b.Admin)
	if err != nil {
		return err
	}
	admin := &http.Server{Handler: gateway.Admin{Gatherer: prometheus.NewRegistry(), Token: bareToken}.Handler(), ReadHeaderTimeout: 10 * time.Second}
	defer admin.Close()
	server := &fasthttp.Server{Handler: s.handle, NoDefaultServerHeader: true, NoDefaultContentType: true}

	failed := make(chan error, 2)
	go func() { failed <- server.Serve(ln) }()
	go func() { failed <- admin.Serve(adminLn) }()
	fmt.Fprintf(os.Stderr, "bare server api=http://%s admin=http://%s\n", ln.Addr(), adminLn.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return server.Shutdown()
	}
}

// bareTenants are names that look like those of the product's tenants.
func bareTenants() []string {
	names := make([]string, stackTenants)
	for i := range names {
		names[i] = fmt.Sprintf("tnt_01KAJ00000000000000000%04d", i)
	}
	return names
}

type bareServer struct {
	key  ed25519.PrivateKey
	log  pipeline.Appender // nil: nothing is made durable
	pool sync.Pool         // of *bareWork

	tenants []string
	next    atomic.Uint32 // tenant
}

// bareWork is the memory of one request.
type bareWork struct {
	seen    issue.Observation
	receipt sealer.Receipt
	ids     []byte
	answer  []byte
}

const bareHead = `{"ok":true,"data":`

func (s *bareServer) handle(ctx *fasthttp.RequestCtx) {
	w := s.pool.Get().(*bareWork)
	defer s.pool.Put(w)
	if err := w.seen.Decode(ctx.PostBody()); err != nil {
		ctx.Error(err.Error(), fasthttp.StatusBadRequest)
		return
	}
	r := &w.receipt
	w.seen.Describe(r)
	w.name(r, time.Now())
	w.answer = append(w.answer[:0], bareHead+`{"receipt":`...)
	from := len(w.answer)
	w.answer = sealer.AppendReceipt(w.answer, r)
	signature := ed25519.Sign(s.key, w.answer[from:])
	w.answer = append(w.answer, `,"signature":{"algorithm":"ed25519","keyId":"`+bareKeyID+`","value":"`...)
	w.answer = base64.RawURLEncoding.AppendEncode(w.answer, signature)
	w.answer = append(w.answer, `"}}`...)
	if s.log != nil {
		tenant := s.tenants[int(s.next.Add(1))%len(s.tenants)]
		record := sealer.Record{TenantID: tenant, EventID: r.ReceiptID, Node: "bare", Event: w.answer[len(bareHead):]}
		if _, err := s.log.Append(context.Background(), &record); err != nil {
			ctx.Error(err.Error(), fasthttp.StatusServiceUnavailable)
			return
		}
	}
	ctx.SetContentType("application/json")
	ctx.SetBody(append(w.answer, `,"contractVersion":"`+api.ContractVersion+`"}`...))
}

// name gives the receipt its times, id and nonce. The random bits are cheaper ones
// than the product's: what those cost is part of the difference.
func (w *bareWork) name(r *sealer.Receipt, now time.Time) {
	var bits [16]byte
	binary.LittleEndian.PutUint64(bits[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(bits[8:], rand.Uint64())
	b := api.AppendID(w.ids[:0], api.PrefixReceipt, now, [10]byte(bits[:10]))
	id := len(b)
	w.ids = base64.RawURLEncoding.AppendEncode(b, bits[:])
	r.ReceiptID, r.Nonce = string(w.ids[:id]), string(w.ids[id:])
	r.RenderedAt, r.IssuedAt = now, now
}
