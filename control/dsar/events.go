package dsar

import "muniment.example/control/store"

// The events about jobs, which audit:read alone reads.
var (
	jobEvents       = &store.Noun{Name: "dsar"}
	eventRequested  = jobEvents.Kind("dsar.requested", "An export of data was requested. No event of a job names the person or the requester.", shown{})
	eventQueued     = jobEvents.Kind("dsar.queued", "An export was started.", shown{})
	eventCancelled  = jobEvents.Kind("dsar.cancelled", "An export was cancelled.", shown{})
	eventCollecting = jobEvents.Kind("dsar.collecting", "The data of an export is collected, also again after a failure.", shown{})
	eventPackaging  = jobEvents.Kind("dsar.packaging", "The bundle of an export is written.", shown{})
	eventReady      = jobEvents.Kind("dsar.ready", "The bundle of an export can be downloaded.", shown{})
	eventFailed     = jobEvents.Kind("dsar.failed", "An export failed.", shown{})
	eventOpened     = jobEvents.Kind("dsar.download_started", "A download of a bundle began, whole or of a part; further ones by the same link are not recorded.", shown{})
	eventDownloaded = jobEvents.Kind("dsar.downloaded", "A bundle was downloaded completely.", shown{})
	eventExpired    = jobEvents.Kind("dsar.expired", "A bundle was deleted: its time was over, or it may have had data of a person who was erased.", shown{})
)

// Nouns are the nouns of this package's events.
var Nouns = []*store.Noun{jobEvents}
