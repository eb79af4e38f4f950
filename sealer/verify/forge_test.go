package verify

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/checkpoint"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/pack"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/sealertest"
)

// What a liar needs to write evidence that no honest writer makes.

// signAnyway seals and signs the next pack, whatever is wrong with its entries; now is its moment.
func (w *world) signAnyway(events [][]byte, earlier map[string]uint64) []byte {
	w.TB.Helper()
	text := w.Directory()
	directory, err := keydir.Read(text)
	require.NoError(w.TB, err)
	l := pack.NewLedger(w.Tenant, w.Tree.Size(), w.Tree, nil)
	l.Settles, l.Keeps = true, true
	l.Adopt(w.Rules)
	l.Claim = func(e *sealer.Event, _ uint64) (uint64, bool) {
		first, ok := earlier[e.EventID]
		return first, ok
	}
	in := pack.Inspector{Directory: directory, Purpose: keydir.PurposeReceipt, SealedAt: w.Now}
	for _, e := range events {
		l.Fold(in.Inspect(e)[0])
	}
	consistency, err := w.Tree.Consistency(l.Leaves)
	require.NoError(w.TB, err)
	settlement, err := l.Settlement(rate.Rating.Rate, nil)
	require.NoError(w.TB, err)
	h := pack.Header{
		Consistency: consistency, Count: len(events), Directory: text, Duplicates: l.Duplicates, FirstIndex: w.Tree.Size(),
		Metering: l.Meter.Rows(), PackID: w.PackID(w.Packs + 1), Previous: w.Previous, RootHash: l.Tree.Root(), SealedAt: w.Now,
		Settlement: settlement, SigningKeyID: keydir.KeyID(sealertest.Public(w.PackKey)), TenantID: w.Tenant, TreeSize: l.Tree.Size(),
	}
	h.Checkpoint, err = checkpoint.Sign(checkpoint.Checkpoint{Origin: checkpoint.Origin(w.Tenant), Size: h.TreeSize, Root: h.RootHash, SealedAt: w.Now}, w.PackKey)
	require.NoError(w.TB, err)
	header := h.Append(nil)
	signature, err := sign(w.PackKey, header)
	require.NoError(w.TB, err)
	return forge(append(append([][]byte{header}, events...), signatureLine(h.SigningKeyID, signature))...)
}

func sign(key crypto.Signer, text []byte) ([]byte, error) { return key.Sign(nil, text, crypto.Hash(0)) }

func appendSignature(dst []byte, keyID string, signature []byte) []byte {
	return fmt.Appendf(dst, `{"algorithm":"ed25519","keyId":%q,"value":%q}`, keyID, base64.RawURLEncoding.EncodeToString(signature))
}

// signatureLine is the last line of a bundle.
func signatureLine(keyID string, signature []byte) []byte {
	return append(appendSignature([]byte(`{"signature":`), keyID, signature), '}')
}

func isCanonical(text []byte) bool {
	again, err := canonical.JSON(text)
	return err == nil && bytes.Equal(again, text)
}

// parseMicros reads an amount in millionths, as big.Rat reads it.
func parseMicros(amount string) (int64, error) {
	r, ok := new(big.Rat).SetString(amount)
	if !ok {
		return 0, fmt.Errorf("%q is no amount", amount)
	}
	return r.Mul(r, big.NewRat(1_000_000, 1)).Num().Int64(), nil
}

func formatMicros(n int64) string {
	text := strings.TrimRight(big.NewRat(n, 1_000_000).FloatString(6), "0")
	return strings.TrimSuffix(text, ".")
}
