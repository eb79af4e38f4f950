// Package adminapi is how a command reaches a running server: what the server writes to its data folder about
// its admin listener, and the client of that listener. Both keep no state. The token that the file holds
// may do everything on the listener, so the file is for its owner alone (mode 0600).
package adminapi

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"muniment.example/sealer/keyfile"
)

// File is what a running server writes to its data folder for administrative commands: an Access.
const File = "admin.json"

// Access is how to reach a server's admin listener.
type Access struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	// Certificate is the file of the listener's certificate; empty without TLS.
	Certificate string `json:"certificate,omitempty"`

	flag string // that names the address in place of the file
}

// Publish writes to the data folder how to reach this process, durably. The caller calls remove when the process ends.
func (a Access) Publish(data string) (remove func(), err error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(data, File)
	if err := keyfile.Write(file, text, 0o600); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(file) }, nil // the next process writes another
}

// Share reads the file of a data folder, or makes it: one token opens the admin
// listeners of all its processes. The address is that of the process that started last: own.
func Share(data string, own Access) (access Access, err error) {
	path := filepath.Join(data, File)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		// Of several processes that start at once one makes it: a link, unlike a rename, fails
		// if there is a file.
		access.Token = rand.Text()
		fresh := path + "." + access.Token[:8]
		if text, err = json.Marshal(access); err == nil {
			err = keyfile.Write(fresh, text, 0o600)
		}
		if err == nil {
			defer os.Remove(fresh)
			if err = os.Link(fresh, path); errors.Is(err, fs.ErrExist) {
				text, err = os.ReadFile(path)
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &access)
	}
	if err == nil && access.Token == "" {
		err = errors.New("it holds no token: remove it")
	}
	access.URL, access.Certificate = own.URL, own.Certificate
	if err == nil {
		text, err = json.Marshal(access)
	}
	if err == nil {
		err = keyfile.Write(path, text, 0o600)
	}
	if err != nil {
		return access, fmt.Errorf("cannot share %s: %w", path, err)
	}
	return access, nil
}
