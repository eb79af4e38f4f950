package node

import (
	"crypto"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment/sealer"
)

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	made, err := makeKey(dir, packRole)
	require.NoError(t, err)
	id := sealer.KeyID(made.pub)
	again, err := loadKey(dir, packRole, id)
	require.NoError(t, err)
	require.Equal(t, made.key, again.key)
	other, err := makeKey(dir, packRole)
	require.NoError(t, err)
	require.NotEqual(t, made.key, other.key)

	path := filepath.Join(dir, "pack-"+id+".key")
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	foreign, err := os.ReadFile(other.path)
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
		_, err := loadKey(dir, packRole, id)
		require.ErrorContains(t, err, path, name)
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(kept), "a damaged key file is never replaced")
	}
	require.NoError(t, os.WriteFile(path, good, 0o600))
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = loadKey(dir, packRole, id)
	require.ErrorContains(t, err, "others may read it")
	require.NoError(t, os.Remove(path))
	_, err = loadKey(dir, packRole, id)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestFilesBelongToOneRole tells the keys of nodes apart whose names begin alike.
func TestFilesBelongToOneRole(t *testing.T) {
	dir := t.TempDir()
	roles := []role{directoryRole, packRole, {sealer.PurposeReceipt, "a"}, {sealer.PurposeReceipt, "a-b"}, {sealer.PurposeReceipt, "a." + strings.Repeat("0", 32)}}
	for _, r := range roles {
		key, err := makeKey(dir, r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(beside(key.path, requestSuffix), nil, 0o600))
		ids, err := r.files(dir)
		require.NoError(t, err)
		require.Equal(t, []string{sealer.KeyID(key.pub)}, ids, r)
	}
	ids, err := packRole.files(filepath.Join(dir, "none"))
	require.NoError(t, err)
	require.Empty(t, ids)
}

func TestDestroyedKeySignsNothing(t *testing.T) {
	key, err := makeKey(t.TempDir(), packRole)
	require.NoError(t, err)
	_, err = key.Sign(nil, []byte("text"), crypto.Hash(0))
	require.NoError(t, err)
	blocks, err := os.Open(key.path) // what a reader of the disk would find
	require.NoError(t, err)
	defer blocks.Close()
	size, err := blocks.Stat()
	require.NoError(t, err)
	secret := key.key

	require.NoError(t, key.destroy())
	require.NoError(t, key.destroy(), "once more is no error")
	_, err = key.Sign(nil, []byte("text"), crypto.Hash(0))
	require.ErrorIs(t, err, errDestroyed)
	require.NoFileExists(t, key.path)
	left := make([]byte, size.Size())
	_, err = blocks.ReadAt(left, 0)
	require.NoError(t, err)
	require.Equal(t, make([]byte, len(left)), left)
	require.Equal(t, make([]byte, len(secret)), []byte(secret))
}
