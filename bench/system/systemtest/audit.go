package systemtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
)

const (
	NewRight   = `{"basisId":"{basisId}","substrate":"CTV","scope":{},"effectiveFrom":"2026-01-01T00:00:00Z"}`
	NewExport  = `{"scope":{"kind":"DATA_SUBJECT","dataSubjectId":"nobody"}}`
	NewOffer   = `{"rightId":"{rightId}","toOrgId":"org_other","scope":{"regions":["US"]}}`
	Contested  = `{"rightId":"{rightId}","reason":"it is ours"}`
	NewDispute = `{"rightId":"{rightId}","window":{"from":"2026-11-01","to":"2026-12-01"},"reason":"never shown"}`
	Rejection  = `{"offerId":"{offerId}","action":"reject"}`
	Resumption = `{"rightId":"{rightId}","action":"resume"}`
)

// Logged is an event as a log has it.
type Logged struct {
	At sealer.Position
	// Text is as a write expects it.
	Text string
}

func ReadLogged(t *testing.T, at sealer.Position, event []byte) Logged {
	var e struct {
		Type           string
		Actor, Subject struct{ Kind, ID string }
	}
	require.NoError(t, json.Unmarshal(event, &e))
	return Logged{at, fmt.Sprintf("%s %s:%s by %s:%s", e.Type, e.Subject.Kind, e.Subject.ID, e.Actor.Kind, e.Actor.ID)}
}

// LoadTries is how often a test repeats a request for what was not loaded in time, ten seconds each.
const LoadTries = 12

// NotLoaded says that an operation was not waited for long enough to be loaded.
func NotLoaded(answer Response) bool {
	return answer.Status == http.StatusServiceUnavailable &&
		(strings.Contains(answer.Body, "the warehouse has not loaded all") || strings.Contains(answer.Body, "the log or the warehouse does not answer"))
}

// TextAt is the text at a place of a JSON text, such as rights.0.id.
func TextAt(t *testing.T, text, place string) string {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal([]byte(text), &value))
	for step := range strings.SplitSeq(place, ".") {
		switch v := value.(type) {
		case []any:
			i, err := strconv.Atoi(step)
			require.NoError(t, err, place)
			require.Less(t, i, len(v), place)
			value = v[i]
		case map[string]any:
			value = v[step]
		}
	}
	found, ok := value.(string)
	require.True(t, ok, "%s is %v in %s", place, value, text)
	return found
}
