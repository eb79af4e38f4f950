package load

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// Exchange is a connection that sends one request at a time.
type Exchange struct {
	Conn net.Conn
	in   *bufio.Reader
}

// Dial connects; every request must have been answered by end. The caller closes the connection.
func Dial(addr string, end time.Time) (*Exchange, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(end); err != nil {
		conn.Close()
		return nil, err
	}
	return &Exchange{conn, bufio.NewReader(conn)}, nil
}

// Send returns the status of the answer.
func (x *Exchange) Send(request []byte) (int, error) {
	if _, err := x.Conn.Write(request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(x.in, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
