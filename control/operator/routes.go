package operator

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"muniment.example/control/assets"
	"muniment.example/control/proof"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

const (
	// Path is where the page is.
	Path = "/console"
	base = Path + "/api"
	tag  = "Console"
	// links is the operation for the command.
	links = "/admin/console/links"
	// readTime bounds the reads for a panel.
	readTime = 5 * time.Second
)

// OperatorRoutes adds the service's operations to the API of the admin listener.
func (s *Service) OperatorRoutes(a route.API) {
	route.Add(a, route.Operation{ID: "make-console-link", Method: http.MethodPost, Path: links, Tag: tag, Access: route.Operator{},
		Summary: "Make a link that opens the operators' page once, within five minutes"}, s.postLink)

	file := route.Operation{Method: http.MethodGet, Tag: tag, Access: route.Public{}, Kept: true, Summary: "Get the operators' page, which has no data"}
	index, part := file, file
	index.ID, index.Path = "get-console", Path
	route.AddRaw(a, index, func(_ context.Context, in *assets.Condition) (*assets.Answer, error) {
		return s.page.Answer("index.html", in)
	})
	part.ID, part.Path = "get-console-file", Path+"/{file}"
	route.AddRaw(a, part, func(_ context.Context, in *struct {
		assets.Condition
		File string `path:"file"`
	}) (*assets.Answer, error) {
		return s.page.Answer(in.File, &in.Condition)
	})

	route.AddRaw(a, route.Operation{ID: "begin-console-session", Method: http.MethodPost, Path: base + "/session", Tag: tag, Access: route.Public{},
		Summary: "Exchange the token of a link for a session"}, s.postSession)
	route.Add(a, s.open("get-console-session", http.MethodGet, "/session", "Get the end of the session"), s.getSession)
	route.AddRaw(a, s.open("end-console-session", http.MethodDelete, "/session", "End the session"), s.deleteSession)

	route.Add(a, s.open("get-console-nodes", http.MethodGet, "/nodes", "List the nodes, their leases and spools"), inTime(s.getNodes))
	route.Add(a, s.open("get-console-lag", http.MethodGet, "/lag", "Get how far the warehouse is behind the log"), inTime(s.getLag))
	route.Add(a, s.open("get-console-history", http.MethodGet, "/history", "Get what this process has noted of lag and spools"), s.getHistory)
	route.Add(a, s.open("get-console-drift", http.MethodGet, "/drift", "Get the drift that this process has found"), s.getDrift)
	route.Add(a, s.open("get-console-refusals", http.MethodGet, "/refusals", "Sum the refusals of all tenants by rule"), inTime(s.getRefusals))
	route.Add(a, s.open("get-console-quarantine", http.MethodGet, "/quarantine", "List the quarantined records that hold sealing"), inTime(s.getQuarantine))
	route.Add(a, s.open("console-release", http.MethodPost, "/quarantine/release", "Release quarantined records"), s.postRelease)
	route.Add(a, s.open("get-console-applications", http.MethodGet, "/applications", "List the newest applications for keys"), inTime(s.getApplications))
	route.Add(a, s.open("console-approve", http.MethodPost, "/applications/{applicationId}/approve", "Approve an application"), s.postApprove)
	route.Add(a, s.open("console-refuse", http.MethodPost, "/applications/{applicationId}/refuse", "Refuse an application"), s.postRefuse)
	route.Add(a, s.open("console-refuse-many", http.MethodPost, "/applications/refuse", "Refuse all applications of an address or host, or that are older than a time, and not approved yet"), s.postRefuseMany)
}

// open is an operation for those who have a session.
func (s *Service) open(id, method, path, summary string) route.Operation {
	return route.Operation{ID: id, Method: method, Path: base + path, Tag: tag, Summary: summary, Access: route.Own{Let: s.admit}}
}

type sessionKey struct{}

// session is the value of the cookie of an admitted request.
func session(ctx context.Context) string {
	value, _ := ctx.Value(sessionKey{}).(string)
	return value
}

// admit admits requests with the cookie of a session.
func (s *Service) admit(ctx huma.Context) (context.Context, error) {
	cookie, err := huma.ReadCookie(ctx, s.sessions.name)
	if err != nil {
		return nil, &api.Error{Code: api.AuthRequired, Message: "there is no session: run muniment console, and open the link that it prints"}
	}
	if _, ok := s.sessions.until(cookie.Value); !ok {
		return nil, &api.Error{Code: api.AuthInvalid, Message: "the session has ended: run muniment console, and open the link that it prints"}
	}
	return context.WithValue(ctx.Context(), sessionKey{}, cookie.Value), nil
}

// inTime bounds the time of a read.
func inTime[I, O any](read func(context.Context, *I) (O, error)) func(context.Context, *I) (O, error) {
	return func(ctx context.Context, in *I) (O, error) {
		ctx, cancel := context.WithTimeout(ctx, readTime)
		defer cancel()
		return read(ctx, in)
	}
}

// Link is a link to the page.
type Link struct {
	Path      string        `json:"path" doc:"Of the page, with the token as its fragment."`
	ExpiresAt store.Instant `json:"expiresAt"`
}

func (s *Service) postLink(context.Context, *struct{}) (Link, error) {
	token, until := s.sessions.link()
	return Link{Path + "#" + token, store.At(until)}, nil
}

// Session is a session as its holder sees it.
type Session struct {
	ExpiresAt store.Instant `json:"expiresAt"`
}

type sessionInput struct {
	Body struct {
		Token string `json:"token" minLength:"1" maxLength:"128" doc:"Of the link, behind the #."`
	}
}

type sessionAnswer struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      api.Body[Session]
}

func (s *Service) postSession(_ context.Context, in *sessionInput) (*sessionAnswer, error) {
	value, until, ok := s.sessions.begin(in.Body.Token)
	if !ok {
		return nil, &api.Error{Code: api.AuthInvalid, Message: "this link was used, has expired, or is not one of this process: run muniment console for another one"}
	}
	return &sessionAnswer{s.cookie(value, int(sessionAge.Seconds())), api.OK(Session{store.At(until)})}, nil
}

// cookie is the session's, for so many seconds.
func (s *Service) cookie(value string, seconds int) http.Cookie {
	return http.Cookie{Name: s.sessions.name, Value: value, Path: Path, MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.cfg.Secure}
}

func (s *Service) getSession(ctx context.Context, _ *struct{}) (Session, error) {
	until, _ := s.sessions.until(session(ctx))
	return Session{store.At(until)}, nil
}

func (s *Service) deleteSession(ctx context.Context, _ *struct{}) (*sessionAnswer, error) {
	s.sessions.end(session(ctx))
	return &sessionAnswer{s.cookie("", -1), api.OK(Session{store.At(s.cfg.Now())})}, nil
}

func (s *Service) postRelease(ctx context.Context, in *proof.ReleaseRequest) (proof.Releases, error) {
	return s.cfg.Packs.ReleaseNamed(ctx, in)
}
