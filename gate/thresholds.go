package gate

// Every number that draws a line. They are part of the ruleset's hash.
const (
	// drivingMph is the speed from which a car counts as driven: at 5.0 exactly it
	// does. Guidance requires Park, or without Park "below 5 mph". Telemetry has no
	// gear, so this is the highest threshold that complies. A right may set a lower
	// one, down to standing still.
	drivingMph = 5

	// deepFadeDb is the weather attenuation above which a link that is not
	// acquired is not believed: a deep fade in the Ku and Ka bands.
	deepFadeDb = 20

	// shownMs is the dwell, in milliseconds, below which nothing was shown.
	shownMs = 0.5

	// The dwell, in milliseconds, that an impression needs to count as audible,
	// or as viewable when it is video (it reports a completion state) and when it
	// is not.
	audibleBarMs = 2000
	videoBarMs   = 2000
	displayBarMs = 1000

	// maxNumber bounds the magnitude of every number in telemetry: beyond it a
	// double no longer holds each whole number, and no instrument reads that high.
	maxNumber = 1 << 53

	// maxTextBytes bounds every string in telemetry, in bytes of UTF-8.
	maxTextBytes = 256
)
