package control

import (
	"encoding/json"
	"fmt"
	"strings"
)

// examples are, by operation, what a caller sent to a running service and what it
// was answered.
type examples map[string]struct {
	Request json.RawMessage `json:"request"`
	Answer  json.RawMessage `json:"answer"`
}

func readExamples() (examples, error) {
	text, err := page.ReadFile("page/examples.json")
	if err != nil {
		return nil, err
	}
	var all examples
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("cannot read the examples: %w", err)
	}
	return all, nil
}

// illustrate gives an operation its examples.
func (all examples) illustrate(op object) {
	e := all[op["operationId"].(string)]
	exemplify(op["requestBody"], e.Request)
	for status, response := range op["responses"].(object) {
		if strings.HasPrefix(status, "2") {
			exemplify(response, e.Answer)
		}
	}
}

// exemplify gives a body, if it may be JSON, its example, if there is one.
func exemplify(holder any, example json.RawMessage) {
	body, _ := holder.(object)
	content, _ := body["content"].(object)
	if media, ok := content[jsonType].(object); ok && example != nil {
		media["example"] = example
	}
}
