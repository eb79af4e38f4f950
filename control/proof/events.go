package proof

import (
	"muniment.example/control/store"
	"muniment.example/pipeline"
)

// The events about packs and quarantined records.
var (
	packNoun        = &store.Noun{Name: "pack"}
	eventSealed     = packNoun.Kind(typeSealed, "Events were sealed into a proof pack.", PackSealed{})
	eventDownloaded = packNoun.Kind(typeDownloaded, "A proof pack was downloaded.")

	recordEvents  = &store.Noun{Name: "record"}
	eventReleased = recordEvents.Kind(pipeline.TypeReleased, "An operator released a quarantined record, so that sealing continues.", RecordReleased{})

	exportEvents = &store.Noun{Name: "events"}
	// EventExported is the kind of the event of an export.
	EventExported = exportEvents.Kind(TypeExported, "A range of sealed events was downloaded.", EventsExported{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{packNoun, recordEvents, exportEvents}

// PackSealed is the data of pack.sealed.
type PackSealed struct {
	Count        int    `json:"count" doc:"How many events the pack has."`
	FirstIndex   uint64 `json:"firstIndex" doc:"The leaf index of the first."`
	TreeSize     uint64 `json:"treeSize" doc:"The size of the tenant's tree with the pack."`
	RootHash     string `json:"rootHash" doc:"The root of that tree."`
	SigningKeyID string `json:"signingKeyId" doc:"The key that signed the pack."`
}

// RecordReleased is the data of record.released.
type RecordReleased struct {
	EventID        string `json:"eventId" doc:"The event that the record names."`
	Position       string `json:"position" doc:"The record's position in the log."`
	Reason         string `json:"reason" doc:"Why it was released."`
	SetAsideReason string `json:"setAsideReason" doc:"Why it was quarantined."`
	SHA256         string `json:"sha256" doc:"The hash of the record."`
}

// EventsExported is the data of events.exported.
type EventsExported struct {
	FirstIndex uint64 `json:"firstIndex" doc:"The leaf index of the first event."`
	LastIndex  uint64 `json:"lastIndex" doc:"The leaf index of the last event."`
}
