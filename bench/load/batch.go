package load

import (
	"bytes"
	"fmt"
	"net"
	"time"
)

// batchCaller is a connection that sends batches: the rows are the same each time, but for their
// ids.
func (p *Pressure) batchCaller(conn net.Conn, number uint32) *Caller {
	s := p.Senders[int(number)%len(p.Senders)]
	played := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	body := []byte(`{"rows":[`)
	c := &Caller{conn: conn, rows: p.Rows, buf: make([]byte, 4096)}
	var ids []int
	for n := range p.Rows {
		if n > 0 {
			body = append(body, ',')
		}
		body = fmt.Appendf(body, `{"playedAt":%q,"rowId":"%08x-`, played, number)
		ids = append(ids, len(body))
		body = append(append(body, `00000000",`...), s.Bodies[(int(number)+n)%len(s.Bodies)][1:]...)
	}
	body = append(body, `]}`...)
	head := fmt.Appendf(nil, "POST /v1/delivery/ingest-batch HTTP/1.1\r\nHost: muniment\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n", s.Key, len(body))
	c.request = append(head, body...)
	for _, at := range ids {
		c.ids = append(c.ids, c.request[len(head)+at:][:keyDigits])
	}
	return c
}

// renumber gives each row of the next batch an id of its own.
func (c *Caller) renumber() {
	c.next++
	for n, id := range c.ids {
		copy(id, fmt.Appendf(nil, "%08d", c.next*len(c.ids)+n))
	}
}

var notAll = []byte(`"status":"rejected"`)

// allAccepted is an error if the last answer rejects a row.
func (c *Caller) allAccepted() error {
	if bytes.Contains(c.body, notAll) {
		return fmt.Errorf("answered %.2000s", c.body[bytes.Index(c.body, notAll):])
	}
	return nil
}
