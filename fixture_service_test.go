package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"muniment/bench/load"
	"muniment/bench/system"
	"muniment/sealer"
)

// service is a running one, in either mode. The contract is the same in both, to the
// letter: the scripts, the matrices of scopes and of foreign ids, and the audit of all
// writes are checked in both, without an exception for either. What differs is
//
//   - how long an event takes into the log that callers read, and so how long a seal
//     waits: a gateway's batch, Kafka and the loader's batch lie in between;
//   - how many nodes sign: the embedded service has one, and one for the sandbox's tenants.
//     Scaled out, each gateway is one, and each control process runs one for those;
//   - how many nodes a propagation names: all gateways, and those of the sandbox;
//   - where an address is counted for the sandbox's limits: in memory, or in the database,
//     which all control processes write;
//   - what is away when something is: that is the matter of the tests of faults.
type service struct {
	t      *testing.T
	data   string         // the folder that operators' commands take
	flags  []string       // of each start
	server *system.Server // who answers; scaled out, it is no process that could be stopped
	// The tenant that the service began with, if it has one of its own, and a right of its
	// for each profile, by substrate.
	tenant tenantKey
	client system.Client
	rights map[string]string
	// events are those of a tenant, dropped or not, behind a position.
	events func(tenantID string, after *sealer.Position) []logged
}

// newService starts one in a process of its own, with a tenant.
func newService(t *testing.T, flags ...string) *service {
	t.Helper()
	s := notStarted(t, filepath.Join(t.TempDir(), "data"), flags...)
	s.start()
	s.settle()
	return s
}

// notStarted is one that is still to be started on a data folder.
func notStarted(t *testing.T, data string, flags ...string) *service {
	s := &service{t: t, data: data, flags: flags}
	s.events = s.logged
	return s
}

// elsewhere is another service, not started yet, with the same tenant.
func (s *service) elsewhere(data string) *service {
	other := notStarted(s.t, data, s.flags...)
	other.tenant, other.client, other.rights = s.tenant, s.client, s.rights
	return other
}

// settle gives the service its tenant.
func (s *service) settle() {
	s.t.Helper()
	s.tenant = createTenant(s.t, s.data)
	s.client.Key = s.tenant.APIKey
	s.rights = issueRights(s.t, s.client)
}

// contractFlags have the sandbox believe the address that a request names, and let one
// address have an hour's requests at once.
var contractFlags = []string{"--trusted-proxies", "1", "--sandbox-burst", "200"}

// lasting is the service that many tests share.
var lasting struct {
	sync.Mutex
	dir    string
	server *system.Server
}

// shared is a service that tests share who leave it as they found it, but for tenants of
// their own.
func shared(t *testing.T) *service {
	t.Helper()
	lasting.Lock()
	defer lasting.Unlock()
	if lasting.server == nil {
		var err error
		lasting.dir, err = os.MkdirTemp("", "muniment-shared")
		require.NoError(t, err)
		lasting.server, err = system.StartServer(context.Background(), "muniment", filepath.Join(lasting.dir, "data"), "127.0.0.1:0", "127.0.0.1:0", contractFlags...)
		require.NoError(t, err)
	}
	s := notStarted(t, lasting.server.Data)
	s.server, s.client.API = lasting.server, lasting.server.API
	return s
}

// endsShared ends the shared service behind the tests.
type endsShared struct{ tests testscript.TestingM }

func (m endsShared) Run() int {
	trusted, err := trustReceivers()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot have webhooks' receivers trusted:", err)
		return 1
	}
	defer os.Remove(trusted)
	defer func() {
		if lasting.server != nil {
			lasting.server.Kill()
		}
		_ = os.RemoveAll(lasting.dir)
	}()
	return m.tests.Run()
}

// start starts the service, with its flags and with some for this time.
func (s *service) start(flags ...string) {
	s.t.Helper()
	s.startAt("127.0.0.1:0", "127.0.0.1:0", flags...)
}

// startAgain starts a service that has ended where it was.
func (s *service) startAgain() {
	s.t.Helper()
	s.startAt(hostPort(s.server.API), hostPort(s.server.Admin))
}

func (s *service) startAt(listen, admin string, flags ...string) {
	s.t.Helper()
	server, err := system.StartServer(s.t.Context(), "muniment", s.data, listen, admin, append(slices.Clone(s.flags), flags...)...)
	require.NoError(s.t, err)
	s.t.Cleanup(server.Kill)
	s.server, s.client.API = server, server.API
}

func (s *service) stop() {
	s.t.Helper()
	require.NoError(s.t, s.server.Stop())
}

// refused starts a server that has to end by itself, and returns what it said.
func (s *service) refused(args ...string) string {
	s.t.Helper()
	return fails(s.t, append([]string{"up", "--data", s.data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
}

// accepting starts the server with --accept-rollback; later starts go without.
func (s *service) accepting() {
	s.t.Helper()
	s.start(acceptRollback)
}

const acceptRollback = "--accept-rollback"

// log is what the server has logged.
func (s *service) log() string { return string(read(s.t, s.data+".log")) }

// note is what /readyz says of a part.
func (s *service) note(name string) string {
	s.t.Helper()
	for _, n := range s.notes() {
		if n.Name == name {
			return n.Note
		}
	}
	require.Fail(s.t, "no such note", name)
	return ""
}

type note struct{ Name, Note string }

// notes are those of /readyz, of a service that is ready.
func (s *service) notes() []note {
	s.t.Helper()
	a := call(s.t, s.server.Admin, "", operation{method: "GET", path: "/readyz"})
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	answer := parse[struct {
		Ready bool
		Notes []note
	}](s.t, a.body)
	require.True(s.t, answer.Ready)
	return answer.Notes
}

type tenantKey struct{ TenantID, OrgID, DeveloperID, KeyID, APIKey string }

// createTenant makes one by the operator's command.
func createTenant(t *testing.T, data string, flags ...string) tenantKey {
	t.Helper()
	return parse[tenantKey](t, muniment(t, append([]string{"tenant", "create", "--data", data, "--org", "org_test", "--another", "--json"}, flags...)...))
}

// issueRights issues a right for each profile on one basis.
func issueRights(t *testing.T, client system.Client) map[string]string {
	t.Helper()
	var basis struct{ Basis struct{ ID string } }
	require.NoError(t, client.Do(t.Context(), "POST", "/v1/bases", map[string]any{
		"kind": "LICENSE", "title": "Test", "holderOrgId": "org_test", "effectiveFrom": "2026-01-01T00:00:00Z",
	}, &basis))
	rights := map[string]string{}
	for _, p := range load.Profiles() {
		var data struct{ Right struct{ ID string } }
		body := map[string]any{"basisId": basis.Basis.ID, "substrate": p.Substrate, "effectiveFrom": "2026-01-01T00:00:00Z", "scope": map[string]any{}}
		if p.Scope != nil {
			body["scope"] = p.Scope
		}
		require.NoError(t, client.Do(t.Context(), "POST", "/v1/rights", body, &data))
		rights[p.Substrate] = data.Right.ID
	}
	return rights
}

// delivery is the body of one that passes the gate.
func delivery(rightID string) string {
	return fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":4200}`, rightID)
}

// response is a response, without the headers that differ between any two.
type response struct {
	status int
	header http.Header
	body   string
}

// cookie is the one that an answer gives, or else the one that there was.
func (a response) cookie(before string) string {
	if given := (&http.Response{Header: a.header}).Cookies(); len(given) > 0 {
		return given[0].Name + "=" + given[0].Value
	}
	return before
}

// call sends the operation with a key, or with none.
func call(t *testing.T, url, key string, o operation, headers ...string) response {
	t.Helper()
	return callBy(t, http.DefaultClient, url, key, o, headers...)
}

func callBy(t *testing.T, client *http.Client, url, key string, o operation, headers ...string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), o.method, url+o.path, strings.NewReader(o.body))
	require.NoError(t, err)
	req.Header.Set("X-Request-Id", "same")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Header.Del("Date")
	checkStatus(t, url, o.method, o.path, resp.StatusCode)
	return response{resp.StatusCode, resp.Header, string(text)}
}

// post and get require a success of the tenant.
func (s *service) post(path string, body, data any) {
	s.t.Helper()
	require.NoError(s.t, s.client.Do(s.t.Context(), http.MethodPost, path, body, data))
}

func (s *service) get(path string, data any) {
	s.t.Helper()
	require.NoError(s.t, s.client.Do(s.t.Context(), http.MethodGet, path, nil, data))
}

// move suspends, resumes or revokes a right.
func (s *service) move(substrate, action string) {
	s.t.Helper()
	s.post("/v1/rights/"+s.rights[substrate]+"/"+action, map[string]any{}, nil)
}

// awaitEvent waits until callers read an event of a type.
func (s *service) awaitEvent(kind string) {
	s.t.Helper()
	until(s.t, func() bool {
		var list struct{ Events []json.RawMessage }
		err := s.client.Do(s.t.Context(), "GET", "/v1/events?type="+kind, nil, &list)
		return err == nil && len(list.Events) > 0
	}, "no event %s", kind)
}

// deliver posts one delivery and returns status and answer.
func (s *service) deliver(key, substrate string) (int, string) {
	s.t.Helper()
	a := call(s.t, s.client.API, key, operation{method: "POST", path: "/v1/delivery", body: delivery(s.rights[substrate])})
	return a.status, a.body
}

// receipts posts deliveries that must be acknowledged, and returns their ids.
func (s *service) receipts(n int) (ids []string) {
	s.t.Helper()
	for range n {
		status, answer := s.deliver(s.client.Key, "DOOH")
		require.Equal(s.t, http.StatusOK, status, answer)
		ids = append(ids, receiptID(s.t, answer))
	}
	return ids
}

func receiptID(t *testing.T, answer string) string {
	t.Helper()
	said := parse[struct {
		Data struct{ Receipt struct{ ReceiptID string } }
	}](t, answer)
	require.NotEmpty(t, said.Data.Receipt.ReceiptID)
	return said.Data.Receipt.ReceiptID
}

// current is the newest key of a purpose.
func current(t *testing.T, data, purpose string) string {
	t.Helper()
	return currentOf(t, data, purpose, "")
}

// currentOf is current for the key of a node, or of control.
func currentOf(t *testing.T, data, purpose, nodeID string) string {
	t.Helper()
	list := parse[struct {
		Keys []struct{ KeyID, Purpose, NodeID, State string }
	}](t, muniment(t, "signing-key", "list", "--data", data, "--json"))
	for _, k := range slices.Backward(list.Keys) {
		if k.Purpose == purpose && k.State == "ACTIVE" && (nodeID == "" || k.NodeID == nodeID) {
			return k.KeyID
		}
	}
	require.Fail(t, "no current key", purpose)
	return ""
}

func hostPort(url string) string { return strings.TrimPrefix(url, "http://") }

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return text
}
