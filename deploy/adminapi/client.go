package adminapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/pipeline"
	"muniment.example/sealer/terminal"
)

// Client calls the JSON operations of a server with one key. Safe for concurrent use.
type Client struct {
	API string
	Key string
	// HTTP sends the requests; nil is http.DefaultClient. Redirects are not followed.
	HTTP *http.Client
}

// Do sends a request again while the warehouse is behind: for so long, and first after such a pause, which doubles
// up to what the server asks for.
const (
	behindTimeout = 2 * time.Minute
	behindPause   = 10 * time.Millisecond
)

// Do calls an operation and decodes the data of its envelope into out (nil to
// drop it). Any answer but 200 is an error that holds the answer's text; but a request
// that needs the warehouse is sent again while that is behind.
func (c Client) Do(ctx context.Context, method, path string, body, out any) error {
	var text []byte
	pause := behindPause
	for began := time.Now(); ; {
		status, after, got, err := c.request(ctx, method, path, body)
		if err != nil {
			return err
		}
		if text = got; status == http.StatusOK {
			break
		}
		behind := status == http.StatusServiceUnavailable && bytes.Contains(text, []byte(`"reason":"WAREHOUSE_BEHIND"`))
		if !behind || time.Since(began) > behindTimeout || pipeline.Pause(ctx, pipeline.Jittered(pause)) != nil {
			return &Refused{method, path, status, bytes.TrimSpace(text)}
		}
		pause = min(2*pause, max(after, behindPause))
	}
	if out == nil {
		return nil
	}
	envelope := struct {
		Data any `json:"data"`
	}{out}
	if err := json.Unmarshal(text, &envelope); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// Refused is an answer other than 200. As an error it is one line of visible characters.
type Refused struct {
	method, path string
	Status       int
	text         []byte
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s %s answered %d: %s", r.method, r.path, r.Status, terminal.Text(string(r.text)))
}

// sentence is the message of a refusal that Do returned, with all its faults. It returns other
// errors, and answers that are not the service's, as they are.
func sentence(err error) error {
	r, ok := errors.AsType[*Refused](err)
	if !ok {
		return err
	}
	var body api.ErrorBody
	switch {
	case json.Unmarshal(r.text, &body) != nil || body.Message == "":
		return err
	case len(body.ValidationErrors) < 2:
		return errors.New(terminal.Text(body.Message))
	}
	faults := make([]string, 0, len(body.ValidationErrors))
	for _, f := range body.ValidationErrors {
		faults = append(faults, f.Field+": "+f.Message)
	}
	return errors.New(terminal.Text(strings.Join(faults, "; ")))
}

// Request sends a request once, and reads the answer.
func (c Client) Request(ctx context.Context, method, path string, body any) (status int, text []byte, err error) {
	status, _, text, err = c.request(ctx, method, path, body)
	return status, text, err
}

// request is Request, with the time for which the server asks to wait.
func (c Client) request(ctx context.Context, method, path string, body any) (status int, after time.Duration, text []byte, err error) {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return 0, 0, nil, err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return 0, 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return resp.StatusCode, api.AskedToWait(resp.Header), text, nil
}

// Download writes the bytes that a GET answers to a file.
func (c Client) Download(ctx context.Context, path, file string) error {
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s answered %s", path, resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, resp.Body); err != nil {
		f.Close()
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return f.Close()
}

func (c Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		payload = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.API+path, payload)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := *cmp.Or(c.HTTP, http.DefaultClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the service sends none: the key and the answer are for it alone
	return client.Do(req)
}
