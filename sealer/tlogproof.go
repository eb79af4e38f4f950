package sealer

import (
	"fmt"

	tlogproof "github.com/transparency-dev/formats/proof"
)

// InclusionProof leads from an event to a signed checkpoint of its log.
type InclusionProof struct {
	// Index is the leaf of the event.
	Index uint64
	// Hashes are the RFC 6962 inclusion proof.
	Hashes []Hash
	// Checkpoint is the signed note, verbatim.
	Checkpoint string
}

// Text is the C2SP tlog-proof, https://c2sp.org/tlog-proof. It has no extra line,
// for nothing would vouch for what stands in it.
func (p *InclusionProof) Text() string {
	hashes := make([][len(Hash{})]byte, len(p.Hashes))
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
		return p, ErrNotCanonical
	}
	return p, nil
}

// ConsistencyProof shows that one checkpoint of a log extends another.
type ConsistencyProof struct {
	// Hashes are the RFC 6962 consistency proof between the two sizes.
	Hashes []Hash
	// From and To are the signed notes, verbatim.
	From, To string
}

// Append appends the canonical text: {"consistency":[…],"from":NOTE,"to":NOTE}.
func (p *ConsistencyProof) Append(dst []byte) []byte {
	dst = append(dst, `{"consistency":`...)
	dst = appendHashes(dst, p.Hashes)
	dst = append(dst, `,"from":`...)
	dst = AppendString(dst, p.From)
	dst = append(dst, `,"to":`...)
	dst = AppendString(dst, p.To)
	return append(dst, '}')
}

// ParseConsistencyProof reads exactly what Append writes. It verifies nothing.
func ParseConsistencyProof(text []byte) (p ConsistencyProof, err error) {
	s := scanner{text: string(text)}
	s.lit(`{"consistency":`)
	p.Hashes = s.hashes()
	s.lit(`,"from":`)
	p.From = s.name()
	s.lit(`,"to":`)
	p.To = s.name()
	s.lit(`}`)
	if err := s.end(); err != nil {
		return ConsistencyProof{}, fmt.Errorf("cannot read consistency proof: %w", err)
	}
	return p, nil
}

func appendHashes(dst []byte, list []Hash) []byte {
	dst = append(dst, '[')
	for i, h := range list {
		dst = appendComma(dst, i)
		dst = appendHash(dst, h)
	}
	return append(dst, ']')
}

func (s *scanner) hashes() (list []Hash) {
	s.list(func() { list = append(list, s.hash()) })
	return list
}

// ParseProvenEvent reads {"event":…,"proof":…}, as the service answers with it. The event is
// verbatim: it is the leaf. It verifies nothing.
func ParseProvenEvent(text string) (event []byte, p InclusionProof, err error) {
	s := scanner{text: text}
	s.lit(`{"event":`)
	event = []byte(s.object())
	s.lit(`,"proof":`)
	proof := s.name()
	s.lit(`}`)
	if err := s.end(); err != nil {
		return nil, p, fmt.Errorf("cannot read inclusion proof: %w", err)
	}
	p, err = ParseInclusionProof(proof)
	return event, p, err
}

// ParseNote reads {"checkpoint":NOTE}, as the service answers with it. It verifies nothing.
func ParseNote(text string) (note string, err error) {
	s := scanner{text: text}
	s.lit(headerStart)
	note = s.name()
	s.lit(`}`)
	return note, s.end()
}
