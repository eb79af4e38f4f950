package certs

import (
	"fmt"
	"os"
	"strings"
)

// PasswordFile is the path of a file that holds a password, as a flag. Empty: there
// is none.
type PasswordFile string

// Password is what the adapters of engines take: a function that they call for each
// connection; nil if there is no file. A newline at the file's end is not part of the
// password.
func (p PasswordFile) Password() func() (string, error) {
	if p == "" {
		return nil
	}
	return func() (string, error) {
		text, err := os.ReadFile(string(p))
		if err != nil {
			return "", fmt.Errorf("cannot read the password: %w", err)
		}
		password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		if password == "" {
			return "", fmt.Errorf("cannot read the password: %s is empty", string(p))
		}
		return password, nil
	}
}
