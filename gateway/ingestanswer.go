package gateway

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"muniment/gateway/api"
	"muniment/gateway/issue"
	"muniment/sealer"
)

// appendResults appends the success envelope of a batch, and counts its rows.
func (g *Gateway) appendResults(dst []byte, results []issue.RowResult, held map[int]string) (_ []byte, err error) {
	var counts [issue.RowStatuses]int
	dst = append(dst, `{"ok":true,"data":{"results":[`...)
	for n := range results {
		r := &results[n]
		counts[r.Status]++
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, `,"status":"`...)
		dst = append(append(dst, r.Status.String()...), '"')
		switch {
		case r.Status == issue.Rejected:
			dst, err = g.appendRefusal(dst, r.Err)
		case r.Event != nil:
			dst, err = appendDelivered(dst, r.Event)
		case held[n] != "": // else it is a duplicate whose event another node has
			dst = append(append(append(dst, `,"heldId":"`...), held[n]...), '"')
		}
		if err != nil {
			return dst[:0], err
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"counts":{`...)
	for s := range issue.RowStatuses {
		if s > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), s.String()...), `":`...)
		dst = strconv.AppendInt(dst, int64(counts[s]), 10)
		g.metrics.rows[s].Add(float64(counts[s]))
	}
	return append(dst, `}},"contractVersion":"`+api.ContractVersion+`"}`...), nil
}

func appendDelivered(dst, event []byte) ([]byte, error) {
	p, err := sealer.SplitDelivery(event)
	if err != nil {
		return dst, err
	}
	dst = append(append(dst, `,"receipt":`...), p.Receipt...)
	dst = append(append(dst, `,"signature":`...), p.Signature...)
	dst = append(append(dst, `,"substrate":`...), p.Substrate...)
	return append(append(dst, `,"metering":`...), p.Metering...), nil
}

// appendRefusal appends why a row was rejected. An error that callers may not see is logged, at
// most as often as those of requests.
func (g *Gateway) appendRefusal(dst []byte, why error) ([]byte, error) {
	e := api.From(why)
	if e.Code == api.InternalError && e.Reason == "" {
		if suppressed, due := g.faults.due(time.Now()); due {
			g.logger.Error("cannot deliver a row", "err", why, "suppressed", suppressed)
		}
	}
	text := bytes.NewBuffer(append(dst, `,"error":`...))
	enc := json.NewEncoder(text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e.OfRow()); err != nil {
		return dst, err
	}
	return bytes.TrimSuffix(text.Bytes(), lineFeed), nil
}
