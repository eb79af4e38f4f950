package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
)

func TestStatusOfEveryCode(t *testing.T) {
	for code, want := range map[Code]int{
		AuthRequired: 401, AuthInvalid: 401, ScopeMissing: 403, ResourceNotFound: 404, StateConflict: 409,
		PreconditionFailed: 412, ValidationFailed: 422, RateLimited: 429, BadRequest: 400, InternalError: 500,
		"SOMETHING_ELSE": 500,
	} {
		require.Equal(t, want, code.Status(), code)
	}
	require.Equal(t, 503, Unavailable(Draining, "going away", time.Second).GetStatus())
	require.Equal(t, 413, TooLarge("body").GetStatus())
}

// TestListsAreWhole holds the lists that documents are made of against the constants
// of their types.
func TestListsAreWhole(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "error.go", nil, 0)
	require.NoError(t, err)
	named := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if kind, ok := spec.Type.(*ast.Ident); ok {
				text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				named[kind.Name] = append(named[kind.Name], text)
			}
		}
		return true
	})
	codes, reasons := []string{}, []string{}
	for _, c := range Codes() {
		codes = append(codes, string(c))
	}
	for _, r := range slices.Concat(Reasons(), RowReasons()) {
		reasons = append(reasons, string(r))
	}
	require.ElementsMatch(t, named["Code"], codes)
	require.ElementsMatch(t, named["Reason"], reasons)
}

func TestErrorEnvelope(t *testing.T) {
	e := Missing(DeliveryWrite, Scopes(RightsRead|KeysWrite))
	e.RequestID = "r1"
	b, err := json.Marshal(e)
	require.NoError(t, err)
	require.Equal(t, `{"ok":false,"error":"SCOPE_MISSING","message":"the key lacks the scope delivery:write","contractVersion":"v1.0",`+
		`"requiredScopes":["delivery:write"],"keyScopes":["rights:read","keys:write"],"requestId":"r1"}`, string(b))

	b, err = (&Error{Code: BadRequest, Message: "a < b && c", Violations: json.RawMessage(`[{"required":"< 5"}]`)}).Body()
	require.NoError(t, err)
	require.Equal(t, `{"ok":false,"error":"BAD_REQUEST","message":"a < b && c","contractVersion":"v1.0","violations":[{"required":"< 5"}]}`+"\n", string(b))

	one := InvalidField("dwellMs", "must be a number")
	require.Equal(t, "dwellMs", one.Field)
	b, err = one.Body()
	require.NoError(t, err)
	require.Equal(t, `{"ok":false,"error":"VALIDATION_FAILED","message":"dwellMs: must be a number","contractVersion":"v1.0","field":"dwellMs","validationErrors":[{"field":"dwellMs","message":"must be a number"}]}`+"\n", string(b))
	two := Invalid(ValidationError{Field: "dwellMs", Message: "must be a number"}, MissingField("rightId"))
	require.Equal(t, "dwellMs", two.Field)
	require.Equal(t, FaultMissing, two.ValidationErrors[1].Kind)
	b, err = two.Body()
	require.NoError(t, err)
	require.Contains(t, string(b), `"validationErrors":[{"field":"dwellMs","message":"must be a number"},{"field":"rightId","message":"is missing"}]`)
}

func TestForeignErrorsKeepTheirTextInside(t *testing.T) {
	e := From(errors.New("password=hunter2"))
	require.Equal(t, InternalError, e.Code)
	require.NotContains(t, e.Message, "hunter2")

	shared := NotFound("right")
	got := From(fmt.Errorf("while reading: %w", shared))
	got.RequestID = "mine"
	require.Empty(t, shared.RequestID, "From must hand out a copy")
}

func TestRetryAfterRoundsUp(t *testing.T) {
	require.Equal(t, 0, (&Error{}).RetryAfterSeconds())
	require.Equal(t, 1, (&Error{RetryAfter: time.Millisecond}).RetryAfterSeconds())
	require.Equal(t, 2, (&Error{RetryAfter: 1001 * time.Millisecond}).RetryAfterSeconds())
}

func TestIDs(t *testing.T) {
	at := time.Date(2026, 11, 21, 4, 0, 0, 123e6, time.UTC)
	id := NewID(PrefixRight, at)
	require.True(t, IsID(PrefixRight, id), id)
	u, err := ulid.ParseStrict(id[4:])
	require.NoError(t, err)
	require.Equal(t, at.UnixMilli(), int64(u.Time()))
	require.NotEqual(t, id, NewID(PrefixRight, at))

	for _, bad := range []string{"", "rgh_", id[:29], id + "0", "bas_" + id[4:], "rgh_8" + id[5:], id[:29] + "U", strings.ToLower(id)} {
		require.False(t, IsID(PrefixRight, bad), bad)
	}
}

func TestScopes(t *testing.T) {
	require.Len(t, EveryScope.Names(), len(scopeNames)-1)
	require.False(t, EveryScope.Allows(Wildcard))
	require.True(t, Scopes(Wildcard).Allows(DeliveryWrite))
	require.False(t, Scopes(AuditRead).Allows(DeliveryWrite))
	set, err := ParseScopes([]string{"audit:read", "*"})
	require.NoError(t, err)
	require.Equal(t, []string{"audit:read", "*"}, set.Names())
	_, err = ParseScopes([]string{"audit:read", "Audit:read"})
	require.ErrorContains(t, err, `"Audit:read"`)
	require.Equal(t, "delivery:write", DeliveryWrite.String())

	text, err := json.Marshal(Key{Scopes: set})
	require.NoError(t, err)
	require.Contains(t, string(text), `"scopes":["audit:read","*"]`, "by name, not by bit")
	var key Key
	require.NoError(t, json.Unmarshal(text, &key))
	require.Equal(t, set, key.Scopes)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"scopes":["root"]}`), &key), `"root"`)
}

func TestPrintable(t *testing.T) {
	require.True(t, Printable("abc-~!", 6))
	for _, bad := range []string{"", "a b", "a\x7f", "é", "1234567"} {
		require.False(t, Printable(bad, 6), bad)
	}
}
