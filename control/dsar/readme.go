package dsar

import (
	"fmt"
	"strings"

	"muniment.example/control/store"
	"muniment.example/sealer/dsar"
)

// abouts say what is in each section.
var abouts = map[string]string{
	"deliveries":      "What was delivered, with receipt, metering decision and private part. event and private are the signed texts.",
	"events":          "All other events. A person's are those that name the person in their private part.",
	"quarantined":     "Records of the log that could not be loaded, and why.",
	"heldRows":        "Rows of batches that wait for a mapping or for the end of a suspension, with their personal data.",
	"dsarJobs":        "Exports that were requested, with their timeline.",
	"mentions":        "Texts in the database that name the person, or are kept about the person: the kind and the id of the record, the field and its text.",
	"rejectedPlays":   "Plays that players have sent and that can't be delivered.",
	"tenant":          "The tenant.",
	"developers":      "The developers, with their e-mail addresses.",
	"members":         "The persons who may sign in, with their e-mail addresses and names, and who they are at a provider of OpenID Connect.",
	"apiKeys":         "The API keys, without their secrets.",
	"bases":           "The legal bases.",
	"rights":          "The rights.",
	"offers":          "The offers.",
	"challenges":      "The challenges.",
	"disputes":        "The disputes.",
	"mappings":        "The mappings of vendors' ids.",
	"counterparties":  "The counterparties of settlements.",
	"settlementRules": "The settlement rules.",
	"statements":      "The statements, without their lines.",
	"payables":        "What payees are due of statements, with its numbers, parties and payments.",
	"payeeLinks":      "Links by which payees read their parts of statements, without what opens them.",
	"issuers":         "The organisation that issues statements, as papers show it.",
	"proofPacks":      "The headers of the proof packs. The packs are downloaded by themselves.",
	"webhooks":        "The webhooks, without their secrets.",
	"erasures":        "The erasures of persons, which name nobody.",
}

// readme is the README of a bundle, in the making.
type readme struct {
	job   *Job
	asOf  string
	files []readmeFile
	left  []store.Section
}

type readmeFile struct {
	section string
	rows    int64
}

func (r *readme) begin(section string) { r.files = append(r.files, readmeFile{section: section}) }

// leave notes that a section is left out.
func (r *readme) leave(s store.Section) { r.left = append(r.left, s) }

func (r *readme) row() { r.files[len(r.files)-1].rows++ }

// text is plain text for the person who gets the bundle.
func (r *readme) text() string {
	var b strings.Builder
	what := map[Kind]string{
		DataSubject: "what is stored about a person", TenantFull: "what is stored for a tenant", TenantSlice: "what is stored for a tenant of a period of time",
	}[r.job.Scope.Kind]
	fmt.Fprintf(&b, "This is an export of %s (%s).\n\n", what, r.job.ID)
	fmt.Fprintf(&b, "It has everything up to the log position %s. Times are in UTC. %s\n\n", r.asOf, map[Format]string{
		JSON:    "Each file is a JSON list with a row on each line.",
		NDJSON:  "Each file has a JSON object on each line, encoded as UTF-8.",
		CSV:     "Each file is CSV (RFC 4180) in UTF-8. Its first line names the columns; an empty cell stands for no value." + map[bool]string{true: " It begins with a byte order mark."}[r.job.BOM],
		Parquet: "Each file is Parquet: times are TIMESTAMP in milliseconds, UTC, amounts and impressions DECIMAL; JSON has what is a list or a structure.",
	}[r.job.Format])
	for _, f := range r.files {
		rows := fmt.Sprintf("%d rows", f.rows)
		switch f.rows {
		case 0:
			rows = "no rows"
			if r.job.Format == NDJSON {
				rows += ", so the file is empty"
			}
		case 1:
			rows = "1 row"
		}
		fmt.Fprintf(&b, "%s: %s. %s\n", f.section+r.job.Format.extension(), rows, abouts[f.section])
	}
	for _, s := range r.left {
		fmt.Fprintf(&b, "%s: Left out, because whoever requested the export lacks the scope %s.\n", s.Name+r.job.Format.extension(), s.Scope)
	}
	if len(r.left) > 0 {
		b.WriteString("Unless erasures are all that is left out, so are the private parts of events other than deliveries, and the texts of records that could not be loaded.\n")
	}
	fmt.Fprintf(&b, "%s: The size and the SHA-256 of each file, signed. \"muniment verify\" checks the bundle.\n", dsar.ManifestName)
	return b.String()
}
