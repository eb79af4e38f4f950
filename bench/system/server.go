// Package system starts the product as its operators do, and calls it as its callers do: a
// server process that can be killed (Server), the processes of a scaled service on engines
// that run already (Cluster), a balancer of layer 4 (Balancer), and the JSON operations
// (Client). Everything listens on the loopback interface.
package system

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Server is a process of the service, `muniment up` or a part of the scaled one, on
// ports of its choice. Its methods are for one goroutine, except Kill.
type Server struct {
	// API and Admin are base URLs, without a slash at the end, and Nodes is where
	// control listens for gateways; what the process doesn't have is empty.
	API, Admin, Nodes string
	// Data is its data folder.
	Data string
	// HTTP sends requests to it. With TLS it trusts the server's certificate.
	HTTP *http.Client

	cmd    *exec.Cmd
	exited chan error
}

// StartServer runs exe up on a data folder and returns once /readyz answers 200.
// Its log is appended to <data>.log. listen and admin are addresses; port 0 takes
// a free one. It ends with this process: its log is a pipe to us.
func StartServer(ctx context.Context, exe, data, listen, admin string, flags ...string) (*Server, error) {
	listen, err := withPort(listen)
	if err != nil {
		return nil, err
	}
	if admin, err = withPort(admin); err != nil {
		return nil, err
	}
	command := append([]string{"up", "--data", data, "--listen", listen, "--admin", admin}, flags...)
	return Start(ctx, exec.Command(exe, command...), data)
}

// Start runs a command that serves data and names its addresses as muniment up does.
func Start(ctx context.Context, cmd *exec.Cmd, data string) (*Server, error) {
	return startWith(ctx, cmd, data, http.DefaultClient)
}

// startWith does so with a client that trusts the server.
func startWith(ctx context.Context, cmd *exec.Cmd, data string, client *http.Client) (*Server, error) {
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(data+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("cannot start %s: %w", cmd.Path, err)
	}
	s := &Server{Data: data, HTTP: client, cmd: cmd, exited: make(chan error, 1)}
	first := make(chan string, 1)
	go func() {
		defer log.Close()
		lines := bufio.NewReader(io.TeeReader(pipe, log))
		line, _ := lines.ReadString('\n') // an early end shows as a line without addresses
		first <- line
		_, err := io.Copy(io.Discard, lines)
		s.exited <- errors.Join(cmd.Wait(), err)
	}()

	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := s.awaitReady(ctx, first); err != nil {
		s.Kill()
		return nil, fmt.Errorf("%w; its log is %s", err, data+".log")
	}
	return s, nil
}

// address finds those that the first line of the server's log names.
var address = regexp.MustCompile(`\b(api|admin|nodes)=(\S+)`)

// awaitReady reads from the first line of the log where the server listens, and
// requests /readyz until it is ready.
func (s *Server) awaitReady(ctx context.Context, first <-chan string) error {
	select {
	case line := <-first:
		for _, m := range address.FindAllStringSubmatch(line, -1) {
			switch m[1] {
			case "api":
				s.API = m[2]
			case "admin":
				s.Admin = m[2]
			case "nodes":
				s.Nodes = m[2]
			}
		}
		if s.Admin == "" {
			return fmt.Errorf("the server's first line names no addresses: %q", line)
		}
	case <-ctx.Done():
		return fmt.Errorf("the server logged nothing: %w", ctx.Err())
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := s.HTTP.Get(s.Admin + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case err := <-s.exited:
			s.exited <- err
			return fmt.Errorf("the server ended before it was ready: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("the server was not ready in time: %w", ctx.Err())
		}
	}
}

// tokenFile is behind the data folder's name of a gateway, which is given its admin token.
const tokenFile = ".token"

// AdminToken is what opens the server's profiles: muniment up leaves it in its data folder.
func (s *Server) AdminToken() (string, error) {
	if given, err := os.ReadFile(s.Data + tokenFile); err == nil {
		return string(given), nil
	}
	text, err := os.ReadFile(filepath.Join(s.Data, "admin.json"))
	if err != nil {
		return "", err
	}
	var admin struct{ Token string }
	if err := json.Unmarshal(text, &admin); err != nil {
		return "", fmt.Errorf("cannot read the admin token: %w", err)
	}
	return admin.Token, nil
}

// Kill ends the server as a power cut would (SIGKILL) and waits until it is gone.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it may have ended already
	s.exited <- <-s.exited
	s.HTTP.CloseIdleConnections() // or the next request to its address may be lost on one of them
}

// Stop sends SIGTERM and returns an error unless it drained
// and exited with 0 within a minute.
func (s *Server) Stop() error {
	s.HTTP.CloseIdleConnections()       // or it waits for a last request on each
	defer s.HTTP.CloseIdleConnections() // or the next request to its address may be lost on one of them
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("cannot stop the server: %w", err)
	}
	select {
	case err := <-s.exited:
		s.exited <- err
		if err != nil {
			return fmt.Errorf("the server didn't end cleanly: %w", err)
		}
		return nil
	case <-time.After(time.Minute):
		s.Kill()
		return errors.New("the server didn't end within a minute")
	}
}

// PID of the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// HostOf is the host:port of a base URL.
func HostOf(url string) string {
	host := strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "https://")
	if _, _, err := net.SplitHostPort(host); err != nil {
		return url
	}
	return host
}

// Stderr is what a command that failed wrote to standard error, after a colon; "" if nothing is
// known of that.
func Stderr(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return ": " + strings.TrimSpace(string(exit.Stderr))
	}
	return ""
}
