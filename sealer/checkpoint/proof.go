package checkpoint

import (
	"fmt"
	"slices"

	tlogproof "github.com/transparency-dev/formats/proof"

	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
	"muniment.example/sealer/merkle"
)

// InclusionProof proves that an event is under a signed checkpoint of its log.
type InclusionProof struct {
	// Index is the leaf of the event.
	Index uint64
	// Hashes are the RFC 6962 inclusion proof.
	Hashes []merkle.Hash
	// Checkpoint is the signed note, verbatim.
	Checkpoint string
}

// Text is the C2SP tlog-proof, https://c2sp.org/tlog-proof. It has no extra line,
// because no signature would cover that.
func (p *InclusionProof) Text() string {
	hashes := make([][len(merkle.Hash{})]byte, len(p.Hashes))
	for i, h := range p.Hashes {
		hashes[i] = h
	}
	return string(tlogproof.TLogProof{Index: p.Index, Hashes: hashes, Checkpoint: []byte(p.Checkpoint)}.Marshal())
}

// ParseInclusionProof reads exactly what Text writes. It verifies nothing.
func ParseInclusionProof(text string) (InclusionProof, error) {
	p, err := parseInclusionProof(text)
	if err != nil {
		return InclusionProof{}, fmt.Errorf("cannot read inclusion proof: %w", err)
	}
	return p, nil
}

func parseInclusionProof(text string) (p InclusionProof, err error) {
	var parsed tlogproof.TLogProof
	if err := parsed.Unmarshal([]byte(text)); err != nil {
		return p, err
	}
	p = InclusionProof{Index: parsed.Index, Checkpoint: string(parsed.Checkpoint)}
	for _, h := range parsed.Hashes {
		p.Hashes = append(p.Hashes, h)
	}
	if p.Text() != text {
		return p, canonical.ErrNotCanonical
	}
	return p, nil
}

// ConsistencyProof shows that one checkpoint of a log extends another.
type ConsistencyProof struct {
	// Hashes are the RFC 6962 consistency proof between the two sizes.
	Hashes []merkle.Hash
	// From and To are the signed notes, verbatim.
	From, To string
}

// Append appends the canonical text: {"consistency":[…],"from":NOTE,"to":NOTE}.
func (p *ConsistencyProof) Append(dst []byte) []byte {
	dst = append(dst, `{"consistency":`...)
	dst = sealer.AppendHashes(dst, p.Hashes)
	dst = append(dst, `,"from":`...)
	dst = canonical.AppendString(dst, p.From)
	dst = append(dst, `,"to":`...)
	dst = canonical.AppendString(dst, p.To)
	return append(dst, '}')
}

// ParseConsistencyProof reads exactly what Append writes. It verifies nothing.
func ParseConsistencyProof(text []byte) (p ConsistencyProof, err error) {
	s := sealer.NewScanner(string(text))
	s.Lit(`{"consistency":`)
	p.Hashes = s.Hashes()
	s.Lit(`,"from":`)
	p.From = s.Name()
	s.Lit(`,"to":`)
	p.To = s.Name()
	s.Lit(`}`)
	if err := s.End(); err != nil {
		return ConsistencyProof{}, fmt.Errorf("cannot read consistency proof: %w", err)
	}
	return p, nil
}

// ParseProvenEvent reads {"event":…,"proof":…}, as the service returns it. The event is
// verbatim: it is the leaf. It verifies nothing.
func ParseProvenEvent(text string) (event []byte, p InclusionProof, err error) {
	s := sealer.NewScanner(text)
	s.Lit(`{"event":`)
	event = []byte(s.Object())
	s.Lit(`,"proof":`)
	proof := s.Name()
	s.Lit(`}`)
	if err := s.End(); err != nil {
		return nil, p, fmt.Errorf("cannot read inclusion proof: %w", err)
	}
	p, err = ParseInclusionProof(proof)
	return event, p, err
}

// FormatProvenEvent writes what ParseProvenEvent reads.
func FormatProvenEvent(event []byte, p *InclusionProof) ([]byte, error) {
	proof, err := canonical.JSON(p.Text())
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"event":`), event, []byte(`,"proof":`), proof, []byte("}")), nil
}

// ParseNote reads {"checkpoint":NOTE}, as the service returns it. It verifies nothing.
func ParseNote(text string) (note string, err error) {
	s := sealer.NewScanner(text)
	s.Lit(`{"checkpoint":`)
	note = s.Name()
	s.Lit(`}`)
	return note, s.End()
}
