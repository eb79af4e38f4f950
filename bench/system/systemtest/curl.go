package systemtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// CurlStatuses is the variable of the environment that names the file to which the curl of RecordingCurl
// appends a line for each request: the status, 000 if there was no answer, and the URL.
const CurlStatuses = "MUNIMENT_CURL_STATUSES"

// RecordingCurl returns a folder, the first of PATH, whose curl does what it does anyway, and records what it is answered.
func RecordingCurl(t *testing.T) (folder string) {
	t.Helper()
	exe, err := exec.LookPath("curl")
	require.NoError(t, err)
	folder = t.TempDir()
	text := "#!/bin/sh\nexec '" + exe + `' "$@" -w '%{stderr}%{http_code} %{url_effective}\n' 2>> "$` + CurlStatuses + "\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "curl"), []byte(text), 0o700))
	return folder
}

// curl does what the sessions of the pages use of the real one, and sends the bytes that it sends: -s, -f, -X, -H,
// -d and --data-binary with a text or a file, -o, -w with two of its variables, and -c and -b with a file of cookies.
func curl(args []string) error {
	method, address, file, jar, report, fail := "", "", "", "", "", false
	var parts, headers []string
	given := map[string]bool{}
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			address = args[i]
			continue
		}
		if strings.Trim(args[i], "sf") == "-" {
			fail = fail || strings.Contains(args[i], "f")
			continue
		}
		if i+1 == len(args) {
			return fmt.Errorf("%s lacks its value", args[i])
		}
		switch flag, value := args[i], args[i+1]; flag {
		case "-X":
			method = value
		case "-H":
			name, v, _ := strings.Cut(value, ":")
			given[http.CanonicalHeaderKey(name)] = true
			if v != "" {
				headers = append(headers, value)
			}
		case "-d", "--data-binary":
			text, err := dataOf(value)
			if err != nil {
				return err
			}
			if flag == "-d" && strings.HasPrefix(value, "@") {
				text = strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(text)
			}
			parts = append(parts, text)
		case "-o":
			file = value
		case "-w":
			report = value
		case "-c":
			jar = value
		case "-b":
			cookies, err := os.ReadFile(value)
			if err != nil {
				return err
			}
			headers = append([]string{"Cookie: " + string(cookies)}, headers...)
		default:
			return fmt.Errorf("the session may not use %s", flag)
		}
		i++
	}
	if !given["Accept"] {
		headers = append([]string{"Accept: */*"}, headers...)
	}
	body := strings.Join(parts, "&")
	switch {
	case method == "" && parts != nil:
		method = http.MethodPost
	case method == "":
		method = http.MethodGet
	}
	if parts != nil {
		headers = append(headers, fmt.Sprint("Content-Length: ", len(body)))
		if !given["Content-Type"] {
			headers = append(headers, "Content-Type: application/x-www-form-urlencoded")
		}
		if len(body) > 1<<20 {
			headers = append(headers, "Expect: 100-continue")
		}
	}
	resp, err := exchange(method, address, headers, body)
	status := 0
	if err == nil {
		defer resp.Body.Close()
		status = resp.StatusCode
	}
	if text, ok := strings.CutPrefix(report, "%{stderr}"); ok {
		fmt.Fprint(os.Stderr, strings.NewReplacer("%{http_code}", fmt.Sprintf("%03d", status), "%{url_effective}", address, `\n`, "\n").Replace(text))
	}
	if err != nil {
		return err
	}
	if fail && status >= http.StatusBadRequest {
		return fmt.Errorf("the requested URL returned error: %d", status)
	}
	if jar != "" {
		var kept []string
		for _, c := range resp.Cookies() {
			kept = append(kept, c.Name+"="+c.Value)
		}
		if err := os.WriteFile(jar, []byte(strings.Join(kept, "; ")), 0o600); err != nil {
			return err
		}
	}
	out := os.Stdout
	if file != "" {
		if out, err = os.Create(file); err != nil {
			return err
		}
		defer out.Close()
	}
	_, err = io.Copy(out, resp.Body)
	return err
}

// dataOf is what an option for a body names: a text, or @ and a file, which is standard input if its name is -.
func dataOf(value string) (string, error) {
	name, ok := strings.CutPrefix(value, "@")
	if !ok {
		return value, nil
	}
	if name == "-" {
		name = "/dev/stdin"
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

// RequireNoErrors fails if a request that is recorded in a file, to another path than those given, was answered 400 or
// above, or not at all.
func RequireNoErrors(t *testing.T, file string, but ...string) {
	t.Helper()
	for line := range strings.Lines(string(ReadFile(t, file))) {
		status, address, found := strings.Cut(strings.TrimSpace(line), " ")
		u, err := url.Parse(address)
		if !found || len(status) != 3 || err != nil || slices.Contains(but, u.Path) {
			continue // what curl says of itself, or a path that is waited for
		}
		require.True(t, status >= "200" && status < "400", "%s was answered %s", address, status)
	}
}

// exchange sends a request in the form and the order that curl gives it, which net/http doesn't: it adds headers of its own.
func exchange(method, address string, headers []string, body string) (*http.Response, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	head := append([]string{method + " " + u.RequestURI() + " HTTP/1.1", "Host: " + u.Host, "User-Agent: curl/7.88.1"}, headers...)
	go func() { // a server may answer before it has read the body
		_, _ = io.WriteString(conn, strings.Join(head, "\r\n")+"\r\n\r\n"+body)
	}()
	from := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(from, &http.Request{Method: method})
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if resp.StatusCode != http.StatusContinue {
			resp.Body = struct {
				io.Reader
				io.Closer
			}{resp.Body, conn}
			return resp, nil
		}
	}
}
