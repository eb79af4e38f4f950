package console

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"muniment.example/control/member"
	"muniment.example/gateway/api"
)

// filePatience is how long a file of an archive waits while its tenant has too many requests in flight: less than a gateway waits
// for the next bytes (gateway/config.go ControlTimeout).
const filePatience = 20 * time.Second

// archive is a ZIP file that is made while it is sent, of what operations respond: each file is stored as it is, and held in
// memory by no more than a buffer. Its directory comes last, so a file that broke off opens nowhere.
type archive struct {
	p     *page
	name  string                                      // of the file, without an extension
	still func(*http.Request) (member.Session, error) // the session as it is now: it may end before the archive does
	to    *zip.Writer                                 // nil until the first file begins: until then a refusal can be said in words
}

// add adds the file that an operation responds with; size is that of the file, or 0 if that is not known. It is
// patient.
func (a *archive) add(name string, at time.Time, size int64, op string, query url.Values, params ...string) error {
	p := a.p
	now, err := a.still(p.r)
	if err != nil {
		return err
	}
	p.Session = &now
	if err = p.missing(op); err != nil {
		return err
	}
	target := p.s.operations()[op].target(params, query)
	until := time.Now().Add(filePatience)
	return patiently(p.r.Context(), func() time.Time { return until }, func() (http.Header, error) {
		f := archived{begin: func() (io.Writer, error) { return a.create(name, at) }}
		if err := p.s.cfg.Serve(&f, p.r.Context(), p.Session.Caller, http.MethodGet, target); err != nil {
			return nil, err
		}
		switch {
		case f.err != nil:
			return nil, f.err
		case f.to != nil && (size == 0 || size == f.written):
			return nil, p.r.Context().Err()
		case f.to != nil:
			return nil, fmt.Errorf("%s has %d bytes of %d", name, f.written, size)
		}
		return f.Header(), decode(max(f.status, http.StatusOK), f.body.Bytes(), nil)
	})
}

// create begins a file, and the response with the first one.
func (a *archive) create(name string, at time.Time) (io.Writer, error) {
	if a.to == nil {
		a.p.w.Header().Set("Content-Type", "application/zip")
		a.p.w.Header().Set("Content-Disposition", `attachment; filename="`+a.name+`.zip"`)
		a.to = zip.NewWriter(a.p.w)
	}
	return a.to.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: at})
}

// end writes the directory. What went wrong before the first file is returned, to be said on a page; after that the response
// is aborted, so that what has arrived is not taken for the whole.
func (a *archive) end(err error) error {
	if a.to == nil {
		return err
	}
	if err == nil {
		err = a.to.Close()
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			a.p.s.cfg.Logger.Warn("a download of several files was not completed", "name", a.name, "err", err)
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}

// archived is the response of an operation as a file of an archive, unless it is an error, which it keeps.
type archived struct {
	response // of an error
	begin    func() (io.Writer, error)
	to       io.Writer // nil: it has not begun
	written  int64
	err      error // of the archive
}

func (f *archived) WriteHeader(status int) {
	switch {
	case f.to != nil || f.status != 0 || f.err != nil:
	case status >= http.StatusBadRequest:
		f.status = status
	default:
		f.to, f.err = f.begin()
	}
}

func (f *archived) Write(b []byte) (n int, err error) {
	f.WriteHeader(http.StatusOK)
	switch {
	case f.err != nil:
		return 0, f.err
	case f.status != 0:
		return f.body.Write(b)
	}
	n, f.err = f.to.Write(b)
	f.written += int64(n)
	return n, f.err
}

// errNoPacks is the response to a request for an archive of nothing.
var errNoPacks = &api.Error{Code: api.ResourceNotFound, Message: "no pack was sealed then, so there is nothing to download"}
