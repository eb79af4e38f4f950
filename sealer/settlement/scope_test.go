package settlement_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/settlement"
)

// TestRightIn: campaigns and labels are each absent or of their type; of a scope that breaks this nothing counts.
func TestRightIn(t *testing.T) {
	in := func(data string) string {
		r := settlement.RightIn(&sealer.Event{Type: sealer.TypeRightIssued, Subject: sealer.Ref{Kind: sealer.SubjectRight, ID: "rgh_a"}, Data: []byte(data)})
		require.NotNil(t, r, data)
		require.Equal(t, "rgh_a", r.RightID, data)
		return fmt.Sprintf("%q %q", r.Campaigns, r.Labels)
	}
	const nothing = `[] map[]`
	for _, c := range []struct{ scope, want string }{
		{`{}`, nothing},
		{`{"campaigns":["b","a","b"],"labels":{"team":"","venue":"north"}}`, `["a" "b"] map["team":"" "venue":"north"]`},
		{`{"campaigns":["a"],"regions":5,"rightId":5}`, `["a"] map[]`},
		{`{"Campaigns":["a"],"labels":{"":"a"}}`, `[] map["":"a"]`},
		{`{"campaigns":[]}`, nothing}, {`{"labels":{}}`, nothing},
		{`null`, nothing}, {`"spring"`, nothing}, {`[]`, nothing},
		{`{"campaigns":null,"labels":{"team":""}}`, nothing},
		{`{"campaigns":[null,"spring"]}`, nothing}, {`{"campaigns":["spring",5]}`, nothing},
		{`{"campaigns":"spring"}`, nothing}, {`{"campaigns":{"spring":""},"labels":{"team":""}}`, nothing},
		{`{"campaigns":["spring"],"labels":{"team":null}}`, nothing}, {`{"labels":{"team":["a"]}}`, nothing},
		{`{"campaigns":["spring"],"labels":[]}`, nothing}, {`{"campaigns":["spring"],"labels":null}`, nothing},
	} {
		require.Equal(t, c.want, in(`{"scope":`+c.scope+`}`), c.scope)
	}
	require.Equal(t, nothing, in(`{}`))
	for _, e := range []sealer.Event{
		{Type: "right.revoked", Subject: sealer.Ref{Kind: sealer.SubjectRight, ID: "rgh_a"}, Data: []byte(`{"scope":{}}`)},
		{Type: sealer.TypeRightIssued, Subject: sealer.Ref{Kind: "offer", ID: "rgh_a"}, Data: []byte(`{"scope":{}}`)},
	} {
		require.Nil(t, settlement.RightIn(&e))
	}
}
