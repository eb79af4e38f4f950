package erasure

import (
	"context"
	"net/http"

	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
	"muniment.example/sealer"
)

// Routes adds the service's operations to the API.
func (s *Service) Routes(a route.API) {
	const all = route.Scope(api.Wildcard)
	route.Add(a, route.Operation{ID: "erase", Method: http.MethodPost, Path: "/v1/compliance/erase", Tag: "Compliance", Access: all,
		Summary: "Erase a person", Heavy: true, Confirms: true, Errors: []int{http.StatusPreconditionFailed},
		Description: "Deletes all references to the person, and their private data, wherever the service stores them. Proofs, packs and totals don't change. It can't be undone.\n\n" +
			"A text names the person if it contains the reference as a whole, bounded by anything but letters, digits, `-`, `_`, `@`, `+`, and `.` inside a word: `example.org` is not in `a@example.org`. " +
			"References are compared in NFC, and one with an `@` without regard to case. Ids that the service made name nobody.\n\n" +
			"Without `confirmationToken` the response is 412, with a token and a preview of what would be deleted, and of the permanent events that will still name the person. An event that names others too loses this person alone. The token is valid for 10 minutes, for one erasure of this person by this API key. " +
			"With the token the erasure begins, and the response is its record. `GET /v1/compliance/erasures/{erasureId}` shows when it is COMPLETED, with a signed certificate.\n\n" +
			"An erasure covers events up to a minute after the request, whenever they arrive, because clocks of nodes may be ahead by that. Later data of the same person needs another erasure. " +
			"The log and the nodes' copies delete the covered data as they age; the certificate states by when. " +
			"Stored responses to requests with an Idempotency-Key of this tenant are deleted too."}, s.postErase)
	route.Add(a, route.Operation{ID: "list-erasures", Method: http.MethodGet, Path: "/v1/compliance/erasures", Tag: "Compliance", Access: all,
		Summary: "List the erasures, newest first"}, s.getErasures)
	route.Add(a, route.Operation{ID: "get-erasure", Method: http.MethodGet, Path: "/v1/compliance/erasures/{erasureId}", Tag: "Compliance", Access: all,
		Summary: "Get an erasure, and its certificate once it is COMPLETED"}, s.getErasure)
}

// SchemaName returns the schema name in the OpenAPI document.
func (Counts) SchemaName() string { return "ErasureCounts" }

type (
	// ErasureData is the response about one erasure.
	ErasureData struct {
		Erasure Erasure `json:"erasure"`
	}
	// ErasureList is one page of erasures.
	ErasureList struct {
		Erasures   []Erasure `json:"erasures" doc:"The erasures of this page."`
		NextCursor *string   `json:"nextCursor"`
	}
	// EraseRequest is a request for an erasure.
	EraseRequest struct {
		DataSubjectID     string  `json:"dataSubjectId" minLength:"1" maxLength:"256" doc:"The person, as deliveries name them."`
		ConfirmationToken *string `json:"confirmationToken,omitempty" nullable:"true" maxLength:"100" doc:"The token of a 412 response to the same request."`
	}
)

type eraseInput struct{ Body EraseRequest }

func (s *Service) postErase(ctx context.Context, in *eraseInput) (ErasureData, error) {
	caller := auth.PrincipalFrom(ctx)
	person := in.Body.DataSubjectID
	named := sealer.NewPerson(person)
	if !store.Storable(person) {
		return ErasureData{}, api.InvalidField("dataSubjectId", "must be UTF-8 without U+0000")
	}
	requested := Erasure{TenantID: caller.TenantID, SubjectHash: s.Hash(caller.TenantID, person), RequestedBy: caller.ID}
	var err error
	if requested.Counts, err = s.count(ctx, &requested, named); err != nil {
		return ErasureData{}, err
	}
	now := s.db.Now()
	refuse := func(message string) error {
		return &api.Error{
			Code: api.PreconditionFailed, Message: message,
			ConfirmationToken: s.token(caller.TenantID, caller.ID, person, now.Add(tokenLife)), Preview: requested.Counts,
		}
	}
	t := in.Body.ConfirmationToken
	switch {
	case t == nil:
		return ErasureData{}, refuse("this would erase the data that the preview counts, and can't be undone: to confirm, repeat the request with the confirmationToken within 10 minutes")
	case !s.confirms(*t, caller.TenantID, caller.ID, person, now):
		return ErasureData{}, refuse("the confirmationToken is not valid for this person and this API key, or has expired: use the one in this response")
	}
	requested.Confirmation = t
	made, used, err := s.begin(ctx, requested, named)
	if err == nil { // also for one that was begun by a call that could not confirm it
		err = s.db.Confirm(ctx)
	}
	if err != nil {
		return ErasureData{}, err
	}
	if used != "" {
		return ErasureData{}, refuse("the confirmationToken has begun the erasure " + used + ": to erase later data of the person, use the one in this response")
	}
	return ErasureData{made}, nil
}

// begin writes the tombstone and its event, replaces the name by the hash in control's tables, while
// the name is known, and queues the job. used is the erasure that the same token has begun; nothing is
// changed then.
func (s *Service) begin(ctx context.Context, requested Erasure, person sealer.Person) (made Erasure, used string, err error) {
	ahead, err := s.lookAhead(ctx, requested.TenantID, person)
	if err != nil {
		return made, "", err
	}
	err = s.db.LongChange(ctx, func(tx *store.Tx) error {
		before, err := store.One(ctx, tx, "the erasure that a token has begun", store.Text, `SELECT erasure_id FROM erasures WHERE tenant_id = $1 AND confirmation = $2`, requested.TenantID, requested.Confirmation)
		if err != nil {
			return err
		}
		if before != nil {
			used = *before
			return nil
		}
		made = requested
		now := store.At(tx.Now())
		made.ID, made.EventID, made.State = api.NewID(prefix, now.Time), api.NewID(api.PrefixEvent, now.Time), Requested
		made.Until, made.CreatedAt, made.UpdatedAt = store.At(now.Add(api.ClockSlack)), now, now
		if _, err := buryAll(ctx, tx, made.tombstones(nil)); err != nil {
			return err
		}
		beside, err := s.bundlesBeside(ctx, tx, &made)
		if err != nil {
			return err
		}
		found, err := s.eraseIn(ctx, tx, &made, person, ahead, beside.taker())
		if err != nil {
			return err
		}
		made.Counts.Records = found.Rows
		said := event{Erasure: &made, notes: notes{Kinds: append([]string{}, found.Nouns...)}}
		if err := beside.close(ctx, tx, found.Records); err != nil {
			return err
		}
		if err := erasures.Insert(ctx, tx, &made); err != nil {
			return err
		}
		if _, err := buryAll(ctx, tx, made.tombstones(said.Kinds)); err != nil {
			return err
		}
		if err := tx.ForgetAnswers(ctx, made.TenantID); err != nil {
			return err
		}
		err = tx.EmitRecord(ctx, eventErased, sealer.Event{
			TenantID: made.TenantID, EventID: made.EventID, At: now.Time,
			Actor: store.ByKey(made.RequestedBy), Subject: sealer.Ref{Kind: erasures.Noun, ID: made.ID},
		}, &said)
		if err != nil {
			return err
		}
		return enqueue(ctx, tx, &made, payload{})
	})
	return made, used, err
}

func (s *Service) getErasures(ctx context.Context, in *route.Page) (body ErasureList, err error) {
	slice, err := in.Slice()
	if err != nil {
		return body, err
	}
	var next string
	body.Erasures, next, err = erasures.Page(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, store.Where{}, slice)
	body.NextCursor = in.Next(next)
	return body, err
}

func (s *Service) getErasure(ctx context.Context, in *struct {
	ErasureID string `path:"erasureId"`
}) (ErasureData, error) {
	found, err := erasures.Find(ctx, s.db.Read(), auth.PrincipalFrom(ctx).TenantID, in.ErasureID)
	if err != nil {
		return ErasureData{}, err
	}
	return ErasureData{*found}, nil
}
