// Package verifier is the page at /verify: anyone drops files of ours, and their own browser judges them.
//
// It runs muniment-verify itself, compiled for browsers (WebAssembly, in program), in a worker of the page: the
// verdicts, codes and sentences are those of the program, as it is the program. Nothing is uploaded: the page loads
// its own files and this service's public key directory, and sends nothing. The worker gives the program the dropped
// files as a file system (page/files.js), and shows what it prints with --json (page/report.js).
//
// The playground and the tenants' console verify by the same files, which they load from here (page/program.js and
// page/report.js). The worker has the policy of its own file, so a page that starts it needs no leave to compile WebAssembly.
//
// A payee's link leads here with #payee=TOKEN: the page loads the proof of what is due from this service, by the token,
// which it takes out of the address bar, and judges it as if it had been dropped (control/payeelink).
//
// The trust anchor is the root key, if the reader has it. This service's newest keys count beside those in the files then, if
// they are under that root: a key may have been revoked since. A root key among the files is used once the reader says that it
// is the operator's. Without a root key the keys are this service's own word, and the page says so.
//
// make build compiles the program into the folder program, before this package embeds it. A binary that was built
// without it has no such page: /verify then answers 404, and says which program to use instead.
package verifier

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"muniment.example/control/assets"
	"muniment.example/control/route"
	"muniment.example/gateway/api"
)

//go:embed page
var pages embed.FS

// program has what make build puts there, if it has.
//
//go:embed program
var program embed.FS

// Path is where the page is.
const Path = "/verify"

// policy lets the worker compile WebAssembly, besides what other pages may.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// built are the names of the files in program that the page loads.
var built = []string{"muniment-verify.wasm.gz", "wasm_exec.js"}

// Service is safe for concurrent use.
type Service struct {
	page  *assets.Page
	whole bool // the program is there
}

// New reads the page and the program.
func New() (*Service, error) {
	page, err := assets.Open(pages, policy)
	if err != nil {
		return nil, fmt.Errorf("cannot open the page that verifies: %w", err)
	}
	s := &Service{page: page, whole: true}
	for _, name := range built {
		text, err := program.ReadFile("program/" + name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			s.whole = false
		case err != nil:
			return nil, fmt.Errorf("cannot open the program that verifies: %w", err)
		default:
			if err := page.Add(name, text); err != nil {
				return nil, fmt.Errorf("cannot open the program that verifies: %w", err)
			}
		}
	}
	return s, nil
}

var errNotBuilt = &api.Error{Code: api.ResourceNotFound, Message: "this build has no verifier for browsers: verify the files with muniment-verify, or with muniment verify"}

// Routes adds the page to the API.
func (s *Service) Routes(a route.API) {
	index := route.Operation{Method: http.MethodGet, Tag: "Verification", Access: route.Public{}, Kept: true}
	index.ID, index.Path, index.Summary, index.Content = "get-verifier", Path, "Verify files in a browser", route.Content{Type: "text/html"}
	index.Description = "Receipts, proofs, proof packs, statements, exports and bundles are judged by the browser. Nothing is uploaded."
	route.AddRaw(a, index, func(_ context.Context, in *assets.Condition) (*assets.Answer, error) {
		return s.file("index.html", in)
	})
	part := route.Operation{ID: "get-verifier-file", Method: http.MethodGet, Path: Path + "/{file}", Tag: "Verification", Access: route.Public{}, Kept: true, Hidden: true}
	route.AddRaw(a, part, func(_ context.Context, in *struct {
		assets.Condition
		File string `path:"file"`
	}) (*assets.Answer, error) {
		return s.file(in.File, &in.Condition)
	})
}

func (s *Service) file(name string, in *assets.Condition) (*assets.Answer, error) {
	if !s.whole {
		return nil, errNotBuilt
	}
	return s.page.Answer(name, in)
}
