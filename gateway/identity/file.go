package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"muniment.example/gateway/api"
	"muniment.example/sealer/keyfile"
)

// # The folder
//
//	node.json       the id and the credential; mode 0600
//	<key id>.key    a private key each (keyfile)
//	latest          the high-water mark
//	LOCK            locked by the process that uses the folder
//
// A key or credential is on disk before control receives its public key or hash.

const savedFile = "node.json"

// saved is node.json.
type saved struct {
	NodeID     string `json:"nodeId"`
	Credential string `json:"credential"`
}

// load reads node.json. If there is none, the result is empty.
func load(dir string) (s saved, err error) {
	path := filepath.Join(dir, savedFile)
	text, err := keyfile.ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && !api.IsID(api.PrefixNode, s.NodeID) {
		err = fmt.Errorf("%q is not a node id", s.NodeID)
	}
	if of, _, ok := api.ReadBearer(api.PrefixNode, s.Credential); err == nil && (!ok || of != s.NodeID) {
		err = errors.New("the credential is missing, truncated, or another node's")
	}
	if err != nil {
		return saved{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return s, nil
}

func (s saved) save(dir string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return keyfile.Write(filepath.Join(dir, savedFile), append(text, '\n'), 0o600)
}

func keyPath(dir, keyID string) string { return filepath.Join(dir, keyID+".key") }

func makeKey(dir string) (*keyfile.Key, error) {
	return keyfile.Make(func(keyID string) string { return keyPath(dir, keyID) })
}

var keyName = regexp.MustCompile(`^([0-9a-f]{32})\.key$`)

// loadKeys reads every key of the folder.
func loadKeys(dir string) (keys []*keyfile.Key, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := keyName.FindStringSubmatch(e.Name())
		if name == nil {
			continue
		}
		key, err := keyfile.Load(keyPath(dir, name[1]), name[1])
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}
