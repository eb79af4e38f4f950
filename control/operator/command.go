package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/sealer/terminal"
)

// Command is "muniment console", as kong reads it.
type Command struct {
	JSON bool `help:"Print one JSON object."`
}

// Run requests a link from the server, and prints it.
func (c *Command) Run(server route.AdminClient, out io.Writer) error {
	var made Link
	if err := server.Do(http.MethodPost, links, nil, &made); err != nil {
		return fmt.Errorf("cannot make a link to the operators' page: %w", err)
	}
	at, err := server.Base()
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(out).Encode(struct {
			URL       string        `json:"url"`
			ExpiresAt store.Instant `json:"expiresAt"`
		}{at + made.Path, made.ExpiresAt})
	}
	_, err = terminal.Fprintf(out, "%s\n\nOpen this link in a browser until %s. It works once; the page then stays open for an hour.\n", at+made.Path, made.ExpiresAt)
	return err
}
