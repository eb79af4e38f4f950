package verify

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/keydir"
	"muniment.example/sealer/merkle"
	"muniment.example/sealer/sealertest"
	"muniment.example/sealer/statement"
)

// erasures are certificates of erasure about a log of their own.
func (v *vectors) erasures() {
	a := newArchive(v.t, 3)
	text := a.erasure("pack")
	good := v.put("good/erasure.note", text)
	stone := v.put("good/erased.ndjson", sealertest.Bundle(v.t, a.packs[len(a.packs)-1], a.events[3:]))
	v.good("certificate of erasure", "the pack holds its tombstone", good, stone)
	bad := func(name, about string, text []byte, code sealer.Code) {
		v.cases = append(v.cases, vector{Name: name, About: about, Files: []string{v.put("bad/"+name+".note", text), stone}, Failures: [][]sealer.Code{{code}, nil}})
	}
	bad("erasure-altered", "another person is said to be erased", bytes.Replace(text, []byte(`"subjectHash":"hash"`), []byte(`"subjectHash":"hush"`), 1), sealer.SignatureInvalid)
	bad("erasure-by-a-stranger", "signed by a key that the directory does not list", newArchive(v.t, 3).erasure("stranger"), sealer.KeyUnknown)
	bad("erasure-by-a-node", "signed by a key that is for receipts", newArchive(v.t, 3).erasure("nod_a"), sealer.KeyPurpose)
	bad("erasure-of-another", "the tombstone says otherwise", newArchive(v.t, 3).erasure("pack", func(c *sealer.ErasureCertificate) { c.SubjectHash = "another" }), sealer.EntryAltered)
	v.good("answer about an erasure", "it has the certificate, and says the same beside it", v.put("good/erasure.json", erasureAnswer(text)), stone)
	answered := func(name, about string, text []byte, codes []sealer.Code, others ...string) {
		v.cases = append(v.cases, vector{Name: name, About: about, Files: append([]string{v.put("bad/"+name+".json", text)}, others...), Failures: append([][]sealer.Code{codes}, make([][]sealer.Code, len(others))...)})
	}
	beside := func(old, new string) []byte {
		require.Contains(v.t, string(erasureAnswer(text)), old)
		return bytes.Replace(erasureAnswer(text), []byte(old), []byte(new), 1)
	}
	answered("erasure-answer-of-another", "beside the certificate another person is said to be erased", beside(`"subjectHash":"hash"`, `"subjectHash":"hush"`), []sealer.Code{FormatInvalid}, stone)
	answered("erasure-answer-renamed", "the erasure has another id than its certificate", beside(`"id":"era_0"`, `"id":"era_1"`), []sealer.Code{FormatInvalid}, stone)
	answered("erasure-answer-counts", "beside the certificate another number is stated", beside(`"privateParts":7`, `"privateParts":8`), []sealer.Code{FormatInvalid}, stone)
	answered("erasure-answer-member", "beside the certificate stands a member that no erasure has", beside(`"requestedBy":"key_1"`, `"requestedBy":"key_1","backupsErased":true`), []sealer.Code{FormatInvalid}, stone)
	answered("erasure-answer-state", "it has a certificate, and is said not to be completed", beside(`"state":"COMPLETED"`, `"state":"REQUESTED"`), []sealer.Code{FormatInvalid}, stone)
	answered("erasure-answer-altered", "the certificate in the answer was altered", bytes.ReplaceAll(bytes.ReplaceAll(erasureAnswer(text), []byte(`\"subjectHash\":\"hash\"`), []byte(`\"subjectHash\":\"hush\"`)), []byte(`"subjectHash":"hash"`), []byte(`"subjectHash":"hush"`)), []sealer.Code{sealer.SignatureInvalid}, stone)
	answered("erasure-answer-requested", "it is not completed, so there is no certificate yet", erasureAnswer(nil), []sealer.Code{FormatUnknown})
	v.cases = append(v.cases, vector{Name: "certificate of erasure, alone", About: "no directory is at hand", Files: []string{good}, Failures: [][]sealer.Code{{sealer.KeyUnknown}}})
}

// statements are those of every kind about one log: a first one, two corrections of it, one that voids
// these, and one of a single payee.
func (v *vectors) statements() {
	c := newCorrected(v.t)
	void := c.void(&c.second)
	var packs []string
	for i, text := range append(c.packs, c.issue(&c.third)) {
		packs = append(packs, v.put(fmt.Sprintf("good/stated-%d.ndjson", i+1), text))
	}
	first, second, third := v.put("good/statement.json", c.signed(&c.first)), v.put("good/statement-corrected.json", c.signed(&c.second)), v.put("good/statement-corrected-again.json", c.signed(&c.third))
	voiding := v.put("good/statement-void.json", c.signed(&void))
	with := func(files ...string) []string { return append(files, packs...) }
	v.good("statement", "the packs that it rests on, and that with the event of its issue", with(first)...)
	v.good("statement, without the event of its issue", "whether it is in the log stays open", first, packs[0], packs[1])
	v.good("correction", "with the statement before it", with(second, first)...)
	v.good("second correction", "with the statements before it", with(third, second, first)...)
	v.good("void", "before the second correction, with the statements that it voids", voiding, second, first, packs[0], packs[1], packs[2], packs[3])

	b := newBooks(v.t)
	payee := clone(v.t, &b.statement)
	payee.StatementID, payee.CounterpartyID = "stm_payee", new("cp_studio")
	b.settle(&payee)
	v.good("statement of one payee", "it shows the shares of that one alone", v.put("good/statement-payee.json", b.signed(&payee)), packs[0], packs[1])

	add := func(name, about string, codes []sealer.Code, files ...string) {
		failures := make([][]sealer.Code, len(files))
		failures[0] = codes
		v.cases = append(v.cases, vector{Name: name, About: about, Files: files, Failures: failures})
	}
	add("statement alone", "no directory is at hand", []sealer.Code{sealer.KeyUnknown}, first)
	add("statement, a pack missing", "what it states can't be counted", []sealer.Code{StatementUnproven}, first, packs[1])
	add("statement, its last pack missing", "nothing shows the end of the log that it states", []sealer.Code{StatementUnproven}, first, packs[0])
	add("correction, alone", "the statement before it is not at hand", []sealer.Code{StatementUnproven}, with(second)...)
	add("void, alone", "the statement that it voids is not at hand", []sealer.Code{StatementUnproven}, voiding, packs[0])

	altered := bytes.Replace(c.signed(&c.first), []byte(`"receipts":`), []byte(`"receipts":1`), 1)
	add("statement-altered", "a number of receipts was changed", []sealer.Code{sealer.EntryAltered, sealer.SignatureInvalid}, with(v.put("bad/statement-altered.json", altered))...)
	cut := bytes.TrimSuffix(c.signed(&c.first), []byte("}\n"))
	add("statement-cut", "the last character is missing", []sealer.Code{FormatInvalid}, with(v.put("bad/statement-cut.json", cut))...)
	stranger := strings.Replace(string(c.signed(&c.first)), keydir.KeyID(sealertest.Public(c.PackKey)), strings.Repeat("0", 32), 1)
	add("statement-by-a-stranger", "signed by a key that the directory does not list", []sealer.Code{sealer.KeyUnknown}, v.put("bad/statement-by-a-stranger.json", []byte(stranger)), packs[0], packs[1])
	lie := func(name, about string, from *statement.Statement, change func(*statement.Statement), codes []sealer.Code, before ...string) {
		s := clone(v.t, from)
		change(&s)
		files := append([]string{v.put("bad/"+name+".json", c.signed(&s))}, before...)
		add(name, about+"; signed by the service's own key", codes, append(files, packs[:4]...)...)
	}
	other := func(s *statement.Statement) { s.StatementID = "stm_9" } // so that no event says otherwise
	lie("statement-price", "a price is not the rule's", &c.third, func(s *statement.Statement) { s.Lines[0].Price = "9.5" }, []sealer.Code{StatementRule}, second, first)
	lie("statement-receipts", "it counts a receipt more than the packs hold", &c.third, func(s *statement.Statement) { s.Lines[0].Receipts++ }, []sealer.Code{StatementReceipts}, second, first)
	lie("statement-held", "another amount is held", &c.third, func(s *statement.Statement) { s.HeldAmount = "7" }, []sealer.Code{StatementTotal}, second, first)
	lie("statement-end", "the log ended otherwise", &c.third, func(s *statement.Statement) { s.AsOf.RootHash = merkle.Hash{}.String() }, []sealer.Code{StatementLog}, second, first)
	lie("statement-overlaps", "it does not list what was issued before", &c.third, func(s *statement.Statement) { s.Overlaps = s.Overlaps[:1] }, []sealer.Code{StatementOverlap}, second, first)
	lie("statement-disputed", "it leaves out another receipt than was disputed", &c.third, func(s *statement.Statement) {
		s.Excluded[0].ReceiptIDs = []string{sealertest.Named("rcp_", "another")}
	}, []sealer.Code{StatementExcluded, StatementReceipts}, second, first)
	lie("statement-reasons", "a change has another reason", &c.third, func(s *statement.Statement) { s.Correction.Changes[0].Reason = statement.ChangedByDispute }, []sealer.Code{StatementCorrected}, second, first)
	lie("statement-of-its-text", "its issue is of another text", &c.first, func(s *statement.Statement) { s.HeldAmount = "7" }, []sealer.Code{sealer.EntryAltered, StatementTotal})
	lie("statement-billed-twice", "another statement bills the same receipts", &c.first, func(s *statement.Statement) { other(s); c.overlap(s, 3); s.Overlaps = s.Overlaps[:1] }, []sealer.Code{StatementOverlap})
	require.NotEmpty(v.t, packs)
}
