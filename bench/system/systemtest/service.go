package systemtest

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

	"muniment.example/bench/load"
	"muniment.example/bench/system"
	"muniment.example/bench/waittest"
	"muniment.example/sealer"
)

// Service is a running one, in either mode. The contract is the same in both, to the
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
type Service struct {
	T      *testing.T
	Data   string         // the folder that operators' commands take
	flags  []string       // of each start
	Server *system.Server // who answers; scaled out, it is no process that could be stopped
	// The tenant that the service began with, if it has one of its own, and a right of its
	// for each profile, by substrate.
	Tenant TenantKey
	Client system.Client
	Rights map[string]string
	// Events are those of a tenant, dropped or not, behind a position.
	Events func(tenantID string, after *sealer.Position) []Logged
}

// NewService starts one in a process of its own, with a tenant.
func NewService(t *testing.T, flags ...string) *Service {
	t.Helper()
	s := NotStarted(t, filepath.Join(t.TempDir(), "data"), flags...)
	s.Start()
	s.Settle()
	return s
}

// NotStarted is one that is still to be started on a data folder.
func NotStarted(t *testing.T, data string, flags ...string) *Service {
	s := &Service{T: t, Data: data, flags: flags}
	s.Events = s.logged
	return s
}

// Elsewhere is another service, not started yet, with the same tenant.
func (s *Service) Elsewhere(data string) *Service {
	other := NotStarted(s.T, data, s.flags...)
	other.Tenant, other.Client, other.Rights = s.Tenant, s.Client, s.Rights
	return other
}

// Settle gives the service its tenant.
func (s *Service) Settle() {
	s.T.Helper()
	s.Tenant = CreateTenant(s.T, s.Data)
	s.Client.Key = s.Tenant.APIKey
	s.Rights = IssueRights(s.T, s.Client)
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

// Shared is a service that tests share who leave it as they found it, but for tenants of
// their own.
func Shared(t *testing.T) *Service {
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
	s := NotStarted(t, lasting.server.Data)
	s.Server, s.Client.API = lasting.server, lasting.server.API
	return s
}

// endsShared prepares the tests, and ends the shared service behind them.
type endsShared struct{ tests testscript.TestingM }

func (m endsShared) Run() int {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot run the tests:", err)
		return 1
	}
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

// Start starts the service, with its flags and with some for this time.
func (s *Service) Start(flags ...string) {
	s.T.Helper()
	s.startAt("127.0.0.1:0", "127.0.0.1:0", flags...)
}

// StartAgain starts a service that has ended where it was.
func (s *Service) StartAgain() {
	s.T.Helper()
	s.startAt(HostPort(s.Server.API), HostPort(s.Server.Admin))
}

func (s *Service) startAt(listen, admin string, flags ...string) {
	s.T.Helper()
	server, err := system.StartServer(s.T.Context(), "muniment", s.Data, listen, admin, append(slices.Clone(s.flags), flags...)...)
	require.NoError(s.T, err)
	s.T.Cleanup(server.Kill)
	s.Server, s.Client.API = server, server.API
}

func (s *Service) Stop() {
	s.T.Helper()
	require.NoError(s.T, s.Server.Stop())
}

// Refused starts a server that has to end by itself, and returns what it said.
func (s *Service) Refused(args ...string) string {
	s.T.Helper()
	return Fails(s.T, append([]string{"up", "--data", s.Data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
}

// Accepting starts the server with --accept-rollback; later starts go without.
func (s *Service) Accepting() {
	s.T.Helper()
	s.Start(AcceptRollback)
}

const AcceptRollback = "--accept-rollback"

// Log is what the server has logged.
func (s *Service) Log() string { return string(ReadFile(s.T, s.Data+".log")) }

// Note is what /readyz says of a part.
func (s *Service) Note(name string) string {
	s.T.Helper()
	for _, n := range s.Notes() {
		if n.Name == name {
			return n.Note
		}
	}
	require.Fail(s.T, "no such note", name)
	return ""
}

type Note struct{ Name, Note string }

// Notes are those of /readyz, of a service that is ready.
func (s *Service) Notes() []Note {
	s.T.Helper()
	a := Call(s.T, s.Server.Admin, "", Operation{Method: "GET", Path: "/readyz"})
	require.Equal(s.T, http.StatusOK, a.Status, a.Body)
	answer := Parse[struct {
		Ready bool
		Notes []Note
	}](s.T, a.Body)
	require.True(s.T, answer.Ready)
	return answer.Notes
}

type TenantKey struct{ TenantID, OrgID, DeveloperID, KeyID, APIKey string }

// CreateTenant makes one by the request of the operator's command, whose flags take the command itself.
func CreateTenant(t *testing.T, data string, flags ...string) (made TenantKey) {
	t.Helper()
	access := Parse[struct{ URL, Token string }](t, string(ReadFile(t, filepath.Join(data, "admin.json"))))
	scopes := flags
	if len(flags) > 0 && flags[0] == "--scope" {
		scopes = flags[1:]
	} else if len(flags) > 0 || strings.HasPrefix(access.URL, "https:") {
		return Parse[TenantKey](t, Command(t, append([]string{"tenant", "create", "--data", data, "--org", "org_test", "--another", "--json"}, flags...)...))
	}
	request := map[string]any{"org": "org_test", "another": true}
	if len(scopes) > 0 {
		request["scopes"] = scopes
	}
	require.NoError(t, system.Client{API: access.URL, Key: access.Token}.Do(t.Context(), "POST", "/admin/tenants", request, &made))
	return made
}

// IssueRights issues a right for each profile on one basis.
func IssueRights(t *testing.T, client system.Client) map[string]string {
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

// Delivery is the body of one that passes the gate.
func Delivery(rightID string) string {
	return fmt.Sprintf(`{"rightId":%q,"spatialAnchorId":"a","dwellMs":4200}`, rightID)
}

// Response is a response, without the headers that differ between any two.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Cookie is the one that an answer gives, or else the one that there was.
func (a Response) Cookie(before string) string {
	if given := (&http.Response{Header: a.Header}).Cookies(); len(given) > 0 {
		return given[0].Name + "=" + given[0].Value
	}
	return before
}

// Call sends the operation with a key, or with none.
func Call(t *testing.T, url, key string, o Operation, headers ...string) Response {
	t.Helper()
	return callBy(t, http.DefaultClient, url, key, o, headers...)
}

func callBy(t *testing.T, client *http.Client, url, key string, o Operation, headers ...string) Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), o.Method, url+o.Path, strings.NewReader(o.Body))
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
	checkStatus(t, url, o.Method, o.Path, resp.StatusCode)
	return Response{resp.StatusCode, resp.Header, string(text)}
}

// Post and get require a success of the tenant.
func (s *Service) Post(path string, body, data any) {
	s.T.Helper()
	require.NoError(s.T, s.Client.Do(s.T.Context(), http.MethodPost, path, body, data))
}

func (s *Service) Get(path string, data any) {
	s.T.Helper()
	require.NoError(s.T, s.Client.Do(s.T.Context(), http.MethodGet, path, nil, data))
}

// Move suspends, resumes or revokes a right.
func (s *Service) Move(substrate, action string) {
	s.T.Helper()
	s.Post("/v1/rights/"+s.Rights[substrate]+"/"+action, map[string]any{}, nil)
}

// AwaitEvent waits until callers read an event of a type.
func (s *Service) AwaitEvent(kind string) {
	s.T.Helper()
	waittest.Until(s.T, func() bool {
		var list struct{ Events []json.RawMessage }
		err := s.Client.Do(s.T.Context(), "GET", "/v1/events?type="+kind, nil, &list)
		return err == nil && len(list.Events) > 0
	}, "no event %s", kind)
}

// Deliver posts one delivery and returns status and answer.
func (s *Service) Deliver(key, substrate string) (int, string) {
	s.T.Helper()
	a := Call(s.T, s.Client.API, key, Operation{Method: "POST", Path: "/v1/delivery", Body: Delivery(s.Rights[substrate])})
	return a.Status, a.Body
}

// Receipts posts deliveries that must be acknowledged, and returns their ids.
func (s *Service) Receipts(n int) (ids []string) {
	s.T.Helper()
	for range n {
		status, answer := s.Deliver(s.Client.Key, "DOOH")
		require.Equal(s.T, http.StatusOK, status, answer)
		ids = append(ids, receiptID(s.T, answer))
	}
	return ids
}

func receiptID(t *testing.T, answer string) string {
	t.Helper()
	said := Parse[struct {
		Data struct{ Receipt struct{ ReceiptID string } }
	}](t, answer)
	require.NotEmpty(t, said.Data.Receipt.ReceiptID)
	return said.Data.Receipt.ReceiptID
}

// Current is the newest key of a purpose.
func Current(t *testing.T, data, purpose string) string {
	t.Helper()
	return CurrentOf(t, data, purpose, "")
}

// CurrentOf is current for the key of a node, or of control.
func CurrentOf(t *testing.T, data, purpose, nodeID string) string {
	t.Helper()
	list := Parse[struct {
		Keys []struct{ KeyID, Purpose, NodeID, State string }
	}](t, Command(t, "signing-key", "list", "--data", data, "--json"))
	for _, k := range slices.Backward(list.Keys) {
		if k.Purpose == purpose && k.State == "ACTIVE" && (nodeID == "" || k.NodeID == nodeID) {
			return k.KeyID
		}
	}
	require.Fail(t, "no current key", purpose)
	return ""
}

func HostPort(url string) string { return strings.TrimPrefix(url, "http://") }

func ReadFile(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return text
}
