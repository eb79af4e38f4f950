package playground

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"muniment.example/control/assets"
	"muniment.example/control/route"
	"muniment.example/control/sandbox"
	"muniment.example/gateway/api"
)

const tag = "Sandbox"

// Path is where the page is.
const Path = "/playground"

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	route.AddRaw(a, s.cfg.Visitors.Open(route.Operation{
		ID: "playground-deliver", Method: http.MethodPost, Path: "/delivery", Errors: []int{http.StatusPreconditionFailed},
		Summary: "Observe a delivery as a visitor",
		Description: "Takes the body of `POST /v1/delivery`, and treats it as that does, for a visitor of the sandbox: the constraint gate decides, " +
			"a receipt is signed and durable before it is answered. What the gate refuses is answered with 412 and every violation.",
	}), s.deliver)
	route.AddFile(a, s.cfg.Visitors.OpenStream(route.Operation{
		ID: "playground-events", Method: http.MethodGet, Path: "/events", Content: route.Content{Type: "text/event-stream"},
		Summary: "Watch the visitor's deliveries",
		Description: "Server-sent events, from now on: `receipt` for a delivery that was signed, `refusal` for one that was refused, and `end` with a reason before the stream ends: " +
			"`DROPPED` with the tenant, `SLOW` for a reader who falls behind, `DRAINING` when the process stops, `EXPIRED` after 15 minutes. " +
			"A visitor has two streams at most.",
	}), s.events)

	page := route.Operation{Method: http.MethodGet, Tag: tag, Access: route.Public{}, Kept: true}
	root := page
	root.ID, root.Path, root.Summary, root.Hidden = "get-root", "/{$}", "Go to the playground", true
	route.AddRaw(a, root, func(context.Context, *struct{}) (*redirection, error) {
		return &redirection{Status: http.StatusFound, Location: Path}, nil
	})
	index := page
	index.ID, index.Path, index.Summary, index.Content = "get-playground", Path, "Try the sandbox in a browser", route.Content{Type: "text/html"}
	route.AddRaw(a, index, func(_ context.Context, in *assets.Condition) (*assets.Answer, error) {
		return s.page.Answer("index.html", in)
	})
	part := page
	part.ID, part.Path, part.Hidden = "get-playground-file", Path+"/{file}", true
	route.AddRaw(a, part, func(_ context.Context, in *struct {
		assets.Condition
		File string `path:"file"`
	}) (*assets.Answer, error) {
		return s.page.Answer(in.File, &in.Condition)
	})
}

type redirection struct {
	Status   int
	Location string `header:"Location"`
}

// maxDelivery is the longest body of a delivery, in bytes, as the gateway has it.
const maxDelivery = 64 << 10

type deliverInput struct {
	RawBody []byte
	Body    api.Observation
}

type deliverAnswer struct{ Body sandbox.Body[Delivered] }

// Delivered is the answer to a delivery, as POST /v1/delivery has it.
type Delivered = sandbox.Verbatim[api.Delivered]

func (s *Service) deliver(ctx context.Context, in *deliverInput) (*deliverAnswer, error) {
	data, err := s.delivered(ctx, in.RawBody)
	return &deliverAnswer{sandbox.Body[Delivered]{OK: true, Data: Delivered{RawMessage: data}}}, s.cfg.Visitors.Refuse(ctx, err)
}

func (s *Service) delivered(ctx context.Context, body []byte) (data json.RawMessage, err error) {
	if len(body) > maxDelivery {
		return nil, api.TooLarge(fmt.Sprintf("the body is longer than %d bytes", maxDelivery))
	}
	answer, err := s.cfg.Visitors.Deliver(ctx, body)
	if err != nil {
		return nil, err
	}
	var envelope struct{ Data json.RawMessage }
	err = json.Unmarshal(answer, &envelope)
	return envelope.Data, err
}

// events is the stream of a visitor.
func (s *Service) events(ctx context.Context, _ *struct{}) (*route.File, error) {
	v := sandbox.VisitorOf(ctx)
	return &route.File{Size: route.UnknownSize, Open: func(ctx context.Context) (func(io.Writer), error) {
		st, err := s.cfg.Feed.open(v.TenantID, v.Address)
		if err != nil {
			return nil, s.cfg.Visitors.Refuse(ctx, err)
		}
		return func(to io.Writer) {
			defer s.cfg.Feed.close(st)
			st.serve(ctx, to, func() bool { return s.dropped(ctx, v.TenantID) })
		}, nil
	}}, nil
}

// dropped says whether a tenant is known to be gone, as another process may have dropped it.
func (s *Service) dropped(ctx context.Context, tenantID string) bool {
	lives, err := s.cfg.Visitors.Lives(ctx, tenantID)
	return err == nil && !lives
}
