package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"muniment.example/bench/measure"
)

// A page of the console should come without its reader having to wait.
const mostPage = time.Second

// pages times pages of the tenant's console, from the request to the last byte.
func (s *Scale) pages(ctx context.Context) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	browser := &http.Client{Jar: jar}
	if err := s.page(ctx, browser, "POST", "/sign-in", url.Values{"key": {s.tenant.Client.Key}}); err != nil {
		return err
	}
	var receipts struct {
		Receipts []struct {
			Receipt struct{ ReceiptID, SpatialAnchorID string }
			Event   struct{ Data struct{ RightID string } }
		}
	}
	if err := s.tenant.Client.Do(ctx, "GET", "/v1/receipts?limit=1", nil, &receipts); err != nil {
		return err
	}
	if len(receipts.Receipts) == 0 {
		return errors.New("the tenant has no receipt")
	}
	play := receipts.Receipts[0]
	for _, p := range []struct{ what, path string }{
		{"the overview", ""},
		{"plays", "/plays"},
		{"plays of an anchor", "/plays?spatialAnchorId=" + url.QueryEscape(play.Receipt.SpatialAnchorID)},
		{"plays of a right", "/plays?rightId=" + url.QueryEscape(play.Event.Data.RightID)},
		{"plays of a correlation id that none has", "/plays?correlationId=none"},
		{"plays of a minute", "/plays?" + minuteFrom(s.from.Add(s.to.Sub(s.from)/2))},
		{"a play", "/plays/" + url.PathEscape(play.Receipt.ReceiptID)},
		{"rights", "/rights"},
		{"a right", "/rights/" + url.PathEscape(play.Event.Data.RightID)},
		{"money", "/money"},
		{"proof", "/proof"},
	} {
		took, err := measure.FiveTimes(func() error { return s.page(ctx, browser, "GET", p.path, nil) })
		if err != nil {
			return err
		}
		s.find("console: "+p.what, " ms", measure.Median(took), float64(mostPage.Milliseconds()), measure.Spans(took))
	}
	return nil
}

// page reads a page of the console whole.
func (s *Scale) page(ctx context.Context, browser *http.Client, method, path string, form url.Values) error {
	r, err := http.NewRequestWithContext(ctx, method, s.server.API+"/console"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := browser.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return err
}
