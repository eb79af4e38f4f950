package control

import (
	"context"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// DeliverSandbox issues a receipt for the body of POST /v1/delivery, for a key of a tenant of the
// sandbox. idempotencyKey is the header's value, nil without one. answer is that route's, and the
// receipt durable; replayed says that it is that of an earlier request.
type DeliverSandbox func(ctx context.Context, tenantID, keyID string, body []byte, idempotencyKey *string) (answer []byte, replayed bool, err error)

// deliveries are the deliveries of the sandbox's tenants: nodes of callers have no key that signs for
// them, and forward them here. The document has the operation as the gateway answers it.
type deliveries struct{ deliver DeliverSandbox }

type deliveryInput struct {
	Key     []string `header:"Idempotency-Key"`
	RawBody []byte   `contentType:"application/octet-stream"` // the node reads it as it reads JSON of any caller
}

type deliveryAnswer struct {
	ContentType string `header:"Content-Type"`
	Replayed    string `header:"Idempotent-Replayed"`
	Body        []byte
}

// Routes adds the operation.
func (s deliveries) Routes(a route.API) {
	route.AddRaw(a, route.Operation{ID: "observe-sandbox-delivery", Method: http.MethodPost, Path: "/v1/delivery", Tag: tagDelivery, Hidden: true, Text: []string{"application/octet-stream"},
		Access: route.Scope(api.DeliveryWrite), Summary: "Observe a delivery of a tenant of the sandbox"}, s.post)
}

func (s deliveries) post(ctx context.Context, in *deliveryInput) (*deliveryAnswer, error) {
	caller := auth.PrincipalFrom(ctx)
	if !caller.Sandbox {
		return nil, unknownPath() // of no gateway: it would have answered
	}
	var key *string
	if len(in.Key) > 0 {
		key = &in.Key[0]
	}
	answer, replayed, err := s.deliver(ctx, caller.TenantID, caller.ID, in.RawBody, key)
	if err != nil {
		return nil, err
	}
	out := &deliveryAnswer{ContentType: jsonType, Body: answer}
	if replayed {
		out.Replayed = "true"
	}
	return out, nil
}
