package challenge

import (
	"context"
	"net/http"

	"muniment.example/control/node"
	"muniment.example/control/right"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const read, write = route.Scope(api.ChallengesRead), route.Scope(api.ChallengesWrite)
	route.Add(a, route.Operation{ID: "open-challenge", Method: http.MethodPost, Path: "/v1/challenges", Tag: "Challenges", Access: write,
		Summary: "Challenge an ACTIVE right", Errors: []int{http.StatusNotFound}}, s.post)
	route.Add(a, route.Operation{ID: "list-challenges", Method: http.MethodGet, Path: "/v1/challenges", Tag: "Challenges", Access: read,
		Summary: "List the challenges, newest first"}, s.getAll)
	route.Add(a, route.Operation{ID: "get-challenge", Method: http.MethodGet, Path: "/v1/challenges/{challengeId}", Tag: "Challenges", Access: read,
		Summary: "Get a challenge"}, s.get)
	route.Add(a, route.Operation{ID: "resolve-challenge", Method: http.MethodPost, Path: "/v1/challenges/{challengeId}/resolve", Tag: "Challenges", Access: write,
		Summary: "Uphold a challenge, which revokes the right, or overturn it", Stops: true, Effects: []route.Effect{upholds}}, s.postResolve)
	route.Add(a, route.Operation{ID: "withdraw-challenge", Method: http.MethodPost, Path: "/v1/challenges/{challengeId}/withdraw", Tag: "Challenges", Access: write,
		Summary: "Withdraw a challenge, for its challenger"}, s.postWithdraw)
}

// upholds is the effect of upholding a challenge.
var upholds = route.Effect{Does: "revokes the right, if the challenge is upheld", Scope: api.RightsWrite, Sometimes: true}

// The responses about challenges.
type (
	// ChallengeData is the response about one challenge.
	ChallengeData struct {
		Challenge Challenge `json:"challenge"`
	}
	// ChallengeList is one page of challenges.
	ChallengeList struct {
		Challenges []Challenge `json:"challenges"`
		NextCursor *string     `json:"nextCursor"`
	}
	// ResolvedChallenge is the response to a resolution: in force here at once; propagation says at
	// which nodes.
	ResolvedChallenge struct {
		Challenge   Challenge        `json:"challenge"`
		Right       right.View       `json:"right"`
		Propagation node.Propagation `json:"propagation"`
	}
)

// NewChallenge is a request for a challenge.
type NewChallenge struct {
	RightID         string      `json:"rightId" minLength:"1" maxLength:"64" doc:"The right to challenge."`
	ChallengerOrgID route.OrgID `json:"challengerOrgId" doc:"The organisation that challenges it."`
	Reason          string      `json:"reason" minLength:"1" maxLength:"1024" doc:"Kept in the audit log permanently: no place for personal data."`
}

type openInput struct{ Body NewChallenge }

func (s *Service) post(ctx context.Context, in *openInput) (ChallengeData, error) {
	caller, requested := auth.PrincipalFrom(ctx), in.Body
	made, err := s.open(ctx, Challenge{
		TenantID: caller.TenantID, RightID: requested.RightID, ChallengerOrgID: string(requested.ChallengerOrgID), Reason: requested.Reason,
	}, caller.OrgID, store.ByKey(caller.ID))
	return ChallengeData{made}, err
}

type listInput struct {
	route.Page
	RightID string `query:"rightId" maxLength:"64" doc:"Only challenges of this right."`
	State   string `query:"state" enum:"OPEN,UPHELD,OVERTURNED,WITHDRAWN" doc:"Only challenges in this state."`
}

func (s *Service) getAll(ctx context.Context, in *listInput) (ChallengeList, error) {
	slice, err := in.Slice()
	if err != nil {
		return ChallengeList{}, err
	}
	page, next, err := list(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, filter{in.RightID, in.State}, slice)
	return ChallengeList{page, in.Next(next)}, err
}

func (s *Service) get(ctx context.Context, in *struct {
	ChallengeID string `path:"challengeId"`
}) (ChallengeData, error) {
	c, err := challenges.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.ChallengeID)
	if err != nil {
		return ChallengeData{}, err
	}
	return ChallengeData{*c}, nil
}

// ChallengeResolution is the body of a request to resolve a challenge.
type ChallengeResolution struct {
	Upheld     bool    `json:"upheld" doc:"true: the right is revoked. false: the challenge is overturned."`
	Resolution *string `json:"resolution,omitempty" nullable:"true" maxLength:"1024" doc:"Kept in the audit log permanently: no place for personal data."`
}

type resolveInput struct {
	ChallengeID string `path:"challengeId"`
	Body        *ChallengeResolution
}

func (s *Service) postResolve(ctx context.Context, in *resolveInput) (ResolvedChallenge, error) {
	caller := auth.PrincipalFrom(ctx)
	how := closing{tenantID: caller.TenantID, id: in.ChallengeID, action: Overturn, tenantOrgID: caller.OrgID, by: store.ByKey(caller.ID)}
	if in.Body != nil {
		how.resolution = in.Body.Resolution
		if in.Body.Upheld {
			how.action = Uphold
		}
	}
	if how.action == Uphold {
		if err := caller.Require(upholds.Scope); err != nil {
			return ResolvedChallenge{}, err
		}
	}
	closed, of, err := s.close(ctx, how)
	if err != nil {
		return ResolvedChallenge{}, err
	}
	if how.action == Overturn { // nothing has to be waited for
		p, err := s.nodes.Propagation(ctx, of.Revision)
		return ResolvedChallenge{closed, of, p}, err
	}
	return ResolvedChallenge{closed, of, s.nodes.Await(ctx, of.Revision)}, nil
}

// ChallengeWithdrawal is the body of a request to withdraw a challenge.
type ChallengeWithdrawal struct {
	Reason *string `json:"reason,omitempty" nullable:"true" maxLength:"1024" doc:"Becomes the resolution. Kept in the audit log permanently: no place for personal data."`
}

type withdrawInput struct {
	ChallengeID string `path:"challengeId"`
	Body        *ChallengeWithdrawal
}

func (s *Service) postWithdraw(ctx context.Context, in *withdrawInput) (ChallengeData, error) {
	caller := auth.PrincipalFrom(ctx)
	how := closing{tenantID: caller.TenantID, id: in.ChallengeID, action: Withdraw, tenantOrgID: caller.OrgID, by: store.ByKey(caller.ID)}
	if in.Body != nil {
		how.resolution = in.Body.Reason
	}
	closed, _, err := s.close(ctx, how)
	return ChallengeData{closed}, err
}
