package systemtest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// curl does what the sessions of the pages use of the real one: -s, -X, -H, -d, --data-binary
// with a file, -o, and -c and -b with a file of cookies.
func curl(args []string) error {
	method, url, body, file, jar := "", "", "", "", ""
	header := http.Header{}
	for i := 0; i < len(args); i++ {
		if args[i] == "-s" {
			continue
		}
		if !strings.HasPrefix(args[i], "-") {
			url = args[i]
			continue
		}
		if i+1 == len(args) {
			return fmt.Errorf("%s lacks its value", args[i])
		}
		switch flag, value := args[i], args[i+1]; flag {
		case "-X":
			method = value
		case "-H":
			name, v, _ := strings.Cut(value, ": ")
			header.Set(name, v)
		case "-d":
			body = value
		case "--data-binary":
			text, err := os.ReadFile(strings.TrimPrefix(value, "@"))
			if err != nil {
				return err
			}
			body = string(text)
		case "-o":
			file = value
		case "-c":
			jar = value
		case "-b":
			cookies, err := os.ReadFile(value)
			if err != nil {
				return err
			}
			header.Set("Cookie", string(cookies))
		default:
			return fmt.Errorf("the session may not use %s", flag)
		}
		i++
	}
	if body != "" {
		header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl does
		if method == "" {
			method = http.MethodPost
		}
	}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
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
