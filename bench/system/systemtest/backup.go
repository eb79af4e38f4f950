package systemtest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"muniment.example/control/backup"
)

// BackUp makes a backup of the service, which may be open.
func (s *Service) BackUp(to string, args ...string) (m backup.Manifest) {
	s.T.Helper()
	out := Command(s.T, append([]string{"backup", "--data", s.Data, "--to", to, "--json"}, args...)...)
	require.NoError(s.T, json.Unmarshal([]byte(out), &m))
	return m
}

// Restored makes another service of a backup, not yet open. Nobody was erased since, unless args say so.
func (s *Service) Restored(from string, args ...string) (*Service, backup.Restored) {
	s.T.Helper()
	if !slices.Contains(args, "--tombstones") {
		args = append(args, "--tombstones", os.DevNull)
	}
	other := s.Elsewhere(filepath.Join(s.T.TempDir(), "restored"))
	out := Command(s.T, append([]string{"restore", "--from", from, "--data", other.Data, "--json"}, args...)...)
	return other, Parse[backup.Restored](s.T, out)
}

// Restore is a restore within this process.
func Restore(from, data string, expect ...string) (*backup.Restored, error) {
	args := []string{"restore", "--from", from, "--data", data, "--tombstones", os.DevNull, "--json"}
	for _, file := range expect {
		args = append(args, "--expect-checkpoint", file)
	}
	cmd := exec.Command("muniment", args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New(said.String())
	}
	made := new(backup.Restored)
	return made, json.Unmarshal(out, made)
}

// GoesOn restores a backup to a service that delivers, seals and is proven. It returns
// how many receipts were in the backup.
func (s *Service) GoesOn(backup string) (receipts int) {
	s.T.Helper()
	other, _ := s.Restored(backup)
	require.NoDirExists(s.T, filepath.Join(other.Data, "node"), "it joins anew")
	other.Start()
	require.DirExists(s.T, filepath.Join(other.Data, "node"))
	receipts = other.Metered()
	other.Receipts(3)
	require.Equal(s.T, receipts+3, other.Metered())
	packs := SealAndExport(s.T, other.Client)
	other.Stop()
	VerifyPacks(s.T, other.Data, packs)
	return receipts
}
