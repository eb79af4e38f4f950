package keyfile

import (
	"crypto"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/keydir"
)

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(id string) string { return filepath.Join(dir, "pack-"+id+".key") }
	made, err := Make(in)
	require.NoError(t, err)
	id := keydir.KeyID(made.Pub)
	again, err := Load(in(id), id)
	require.NoError(t, err)
	require.Equal(t, made.key, again.key)
	other, err := Make(in)
	require.NoError(t, err)
	require.NotEqual(t, made.key, other.key)

	path := in(id)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	foreign, err := os.ReadFile(other.Path)
	require.NoError(t, err)
	block, _ := pem.Decode(good)
	for name, text := range map[string]string{
		"empty":        "",
		"cut short":    string(good[:len(good)/2]),
		"two keys":     string(good) + string(good),
		"another key":  string(foreign),
		"another type": strings.ReplaceAll(string(good), "PRIVATE", "PUBLIC"),
		"no DER":       string(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: block.Bytes[1:]})),
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Load(in(id), id)
		require.ErrorContains(t, err, path, name)
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(kept), "a damaged key file is never replaced")
	}
	require.NoError(t, os.WriteFile(path, good, 0o600))
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = Load(in(id), id)
	require.ErrorContains(t, err, "others may read it")
	require.NoError(t, os.Remove(path))
	_, err = Load(in(id), id)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestDestroyedKeySignsNothing(t *testing.T) {
	key, err := Make(func(id string) string { return filepath.Join(t.TempDir(), id) })
	require.NoError(t, err)
	_, err = key.Sign(nil, []byte("text"), crypto.Hash(0))
	require.NoError(t, err)
	blocks, err := os.Open(key.Path) // what a reader of the disk would find
	require.NoError(t, err)
	defer blocks.Close()
	size, err := blocks.Stat()
	require.NoError(t, err)
	secret := key.key

	require.NoError(t, key.Destroy())
	require.NoError(t, key.Destroy(), "once more is no error")
	_, err = key.Sign(nil, []byte("text"), crypto.Hash(0))
	require.ErrorIs(t, err, ErrDestroyed)
	require.NoFileExists(t, key.Path)
	left := make([]byte, size.Size())
	_, err = blocks.ReadAt(left, 0)
	require.NoError(t, err)
	require.Equal(t, make([]byte, len(left)), left)
	require.Equal(t, make([]byte, len(secret)), []byte(secret))
}
