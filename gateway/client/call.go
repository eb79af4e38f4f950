package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"muniment.example/gateway/api"
)

// maxAnswer is the longest answer that is read at once. Bundles and files are streams.
const maxAnswer = 256 << 20

// request is one call, in all of its attempts.
type request struct {
	method, path string
	query        url.Values
	body         []byte
	header       http.Header
	// answer is the header of the answer, once there is one.
	answer http.Header
}

func (r *request) operation() string { return r.method + " " + r.path }

// newRequest makes a request whose body is value in JSON, unless that is nil. A POST gets the
// client's Idempotency-Key, or one of its own.
func (c *caller) newRequest(method, path string, query url.Values, value any) (*request, error) {
	r := &request{method: method, path: path, query: query, header: http.Header{}}
	if strings.HasSuffix(path, "/") || strings.Contains(path, "//") {
		return nil, fmt.Errorf("%s: an id is empty", r.operation())
	}
	if value != nil {
		var text bytes.Buffer
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(value); err != nil {
			return nil, fmt.Errorf("%s: cannot write the request: %w", r.operation(), err)
		}
		r.body = text.Bytes()
		r.header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPost {
		key := c.once
		if key == "" {
			key = rand.Text()
		}
		if !api.Printable(key, api.MaxIdempotencyKey) {
			return nil, fmt.Errorf("%s: the Idempotency-Key must be 1 to %d visible ASCII characters", r.operation(), api.MaxIdempotencyKey)
		}
		r.header.Set(api.HeaderIdempotencyKey, key)
	}
	return r, nil
}

// send makes one attempt, and returns the answer with its body open if its status is 200.
func (c *caller) send(ctx context.Context, r *request) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.operation(), err)
	}
	key, err := c.key(ctx)
	if err == nil && !isKey(key) {
		err = errKey
	}
	if err != nil {
		return nil, fmt.Errorf("%s: cannot get the API key: %w", r.operation(), err)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("User-Agent", c.userAgent)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unanswered(r.operation(), err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, broken(r.operation(), resp, "the answer is cut off: "+err.Error(), err)
	}
	return nil, refused(r.operation(), resp, text)
}

// call makes attempts until one is answered, and returns the data in the envelope.
func (c *caller) call(ctx context.Context, r *request) (data json.RawMessage, err error) {
	err = c.again(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		resp, err := c.send(ctx, r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		data, err = r.read(resp)
		return err
	})
	return data, r.named(err)
}

// named adds the Idempotency-Key to an error.
func (r *request) named(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.IdempotencyKey = r.header.Get(api.HeaderIdempotencyKey)
	}
	return err
}

// read reads a success.
func (r *request) read(resp *http.Response) (json.RawMessage, error) {
	r.answer = resp.Header
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, broken(r.operation(), resp, "the answer is cut off: "+err.Error(), err)
	case len(text) > maxAnswer:
		return nil, broken(r.operation(), resp, fmt.Sprintf("the answer is longer than %d bytes", maxAnswer), nil)
	}
	var envelope struct {
		OK              bool            `json:"ok"`
		Data            json.RawMessage `json:"data"`
		ContractVersion string          `json:"contractVersion"`
	}
	if err := json.Unmarshal(text, &envelope); err != nil || !envelope.OK || len(envelope.Data) == 0 || envelope.ContractVersion == "" {
		return nil, broken(r.operation(), resp, foreign(resp, text), nil)
	}
	return envelope.Data, nil
}

// do calls an operation, with body in JSON unless it is nil, and reads the data of its answer.
func do[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (*T, error) {
	r, err := c.newRequest(method, path, query, body)
	if err != nil {
		return nil, err
	}
	data, err := c.call(ctx, r)
	if err != nil {
		return nil, err
	}
	return decode[T](r, data)
}

func decode[T any](r *request, data json.RawMessage) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, &Error{Operation: r.operation(), Status: http.StatusOK, Message: "cannot read its data: " + err.Error(), kind: ErrForeign}
	}
	return v, nil
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	return do[T](ctx, c, http.MethodGet, path, query, nil)
}

func post[T any](ctx context.Context, c *Client, path string, body any) (*T, error) {
	return do[T](ctx, c, http.MethodPost, path, nil, body)
}

// record calls an operation that answers with one record, and returns what stands in its data
// under the record's noun.
func record[T any](ctx context.Context, c *Client, method, path, noun string, body any) (*T, error) {
	data, err := do[map[string]json.RawMessage](ctx, c, method, path, nil, body)
	if err != nil {
		return nil, err
	}
	return decode[T](&request{method: method, path: path}, (*data)[noun])
}

// list iterates over the records of all pages, which stand in the data under their plural.
func list[T any](ctx context.Context, c *Client, path, plural string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := cloned(query)
		for {
			data, err := get[map[string]json.RawMessage](ctx, c, path, query)
			var page *[]T
			if err == nil {
				page, err = decode[[]T](&request{method: http.MethodGet, path: path}, (*data)[plural])
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range *page {
				if !yield(v, nil) {
					return
				}
			}
			var next string
			if json.Unmarshal((*data)["nextCursor"], &next) != nil || next == "" {
				return
			}
			query.Set("cursor", next)
		}
	}
}

func cloned(query url.Values) url.Values {
	own := url.Values{}
	for name, values := range query {
		own[name] = values
	}
	return own
}

// stream calls an operation that answers with a file. The caller closes it. Only its begin is
// tried again: a file that breaks off ends with an error, io.ErrUnexpectedEOF or another, and
// never with io.EOF.
func (c *caller) stream(ctx context.Context, path string, query url.Values) (file io.ReadCloser, err error) {
	r, err := c.newRequest(http.MethodGet, path, query, nil)
	if err != nil {
		return nil, err
	}
	err = c.again(ctx, func() error {
		ctx, cancel := context.WithCancelCause(ctx)
		late := time.AfterFunc(c.timeout, func() { cancel(errors.New("the answer did not begin in time")) })
		resp, err := c.send(ctx, r)
		if !late.Stop() && err == nil {
			err = unanswered(r.operation(), context.Cause(ctx))
			resp.Body.Close()
		}
		if err != nil {
			cancel(nil)
			return err
		}
		file = &download{resp.Body, cancel}
		return nil
	})
	return file, err
}

type download struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (d *download) Close() error {
	defer d.cancel(nil)
	return d.ReadCloser.Close()
}

// at makes a path of fixed parts and ids, which are escaped: at("/v1/rights", id, "revoke").
func at(base string, parts ...string) string {
	var b strings.Builder
	b.WriteString(base)
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(part))
	}
	return b.String()
}

// values makes the query of a filter: a struct of texts, numbers, times and lists of texts, whose
// tags json name the parameters. Zero fields are left out.
func values(filter any) url.Values {
	query := url.Values{}
	v := reflect.ValueOf(filter)
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Tag.Get("json"), v.Field(i)
		if f.IsZero() {
			continue
		}
		switch x := f.Interface().(type) {
		case string:
			query.Set(name, x)
		case int:
			query.Set(name, strconv.Itoa(x))
		case bool:
			query.Set(name, "true") // or it would be zero
		case time.Time:
			query.Set(name, x.UTC().Format(time.RFC3339Nano))
		case []string:
			query[name] = x
		}
	}
	return query
}
