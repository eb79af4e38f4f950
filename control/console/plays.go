package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"muniment.example/gateway/api"
	"muniment.example/gateway/client"
)

// play is a receipt with what its event says.
type play struct {
	Receipt   api.Receipt
	Signature api.Signature
	Event     struct {
		EventID string
		At      time.Time
		Actor   struct{ Kind, ID string }
		Data    struct {
			BasisID, RightID string
			RightRevision    int64
			Substrate        string
			Gate             struct{ Version, Ruleset string }
			Metering         api.MeteringDecision
		}
	}
	Position string
	Sealed   *client.SealedLeaf
}

func playsOf(query url.Values) list[play] {
	return list[play]{
		op: "list-receipts", query: query, plural: "receipts",
		columns: []string{"Played (UTC)", "Receipt", "Right", "Anchor", "Medium", "For", "Decision", "Correlation id"},
		row: func(r play) []cell {
			decision := state(r.Event.Data.Metering.Reason)
			if r.Event.Data.Metering.Metered {
				decision.Text = "billed"
			}
			correlation := ""
			if r.Receipt.CorrelationID != nil {
				correlation = *r.Receipt.CorrelationID
			}
			return []cell{
				moment(r.Receipt.RenderedAt), id(r.Receipt.ReceiptID, "/plays"), id(r.Event.Data.RightID, "/rights"), text(r.Receipt.SpatialAnchorID),
				text(words(r.Event.Data.Substrate)), milliseconds(int64(r.Receipt.DwellMs)), decision, text(correlation),
			}
		},
	}
}

// playFilters are the filters of the operation, in the names that the address has for them.
var playFilters = []string{"spatialAnchorId", "rightId", "correlationId", "from", "to"}

// search is what the page of the plays shows.
type search struct {
	Filters  url.Values
	Table    table
	Campaign string
	Rights   []client.Right // those that list the campaign
	Checked  bool           // there may be more of them among older rights
	Problem  *problem
}

func showPlays(p *page) error {
	p.show("Plays", "Plays")
	chosen := p.filters(append(playFilters, "receiptId", "campaign")...)
	if receipt := chosen.Get("receiptId"); receipt != "" {
		p.redirect(Path + "/plays/" + url.PathEscape(receipt))
		return nil
	}
	s := search{Filters: chosen, Campaign: chosen.Get("campaign")}
	query := url.Values{}
	for _, name := range playFilters {
		if value := chosen.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	if s.Campaign != "" {
		if err := s.readCampaign(p); err != nil {
			return err
		}
		if query.Get("rightId") == "" && len(s.Rights) > 0 {
			query.Set("rightId", s.Rights[0].ID) // one at a time: the operation takes one right
		}
		if len(s.Rights) == 0 {
			p.render("plays", s)
			return nil
		}
	}
	t, err := playsOf(query).table(p, chosen)
	if s.Problem = wrong(err); err != nil && s.Problem == nil {
		return err
	}
	if s.Problem != nil {
		p.status = s.Problem.Status
	}
	if s.Campaign != "" {
		chosen.Set("rightId", query.Get("rightId"))
		t.File = addressed(p.Path+".csv", query)
	}
	s.Table = t
	p.render("plays", s)
	return nil
}

// wrong is the error of a request that the person can change, to be shown beside the form; nil for others.
func wrong(err error) *problem {
	e, ok := err.(*problem)
	if !ok || e.Status != 422 && e.Status != 400 && e.Status != 409 && e.Status != 412 {
		return nil
	}
	return e
}

// readCampaign finds the rights that list the campaign.
func (s *search) readCampaign(p *page) error {
	var data struct {
		Rights     []client.Right
		NextCursor string
	}
	if err := p.get(&data, "list-rights", url.Values{"limit": {"500"}}); err != nil {
		return err
	}
	for _, r := range data.Rights {
		var scope struct{ Campaigns []string }
		if json.Unmarshal(r.Scope, &scope) == nil && slices.Contains(scope.Campaigns, s.Campaign) {
			s.Rights = append(s.Rights, r)
		}
	}
	s.Checked = data.NextCursor != ""
	return nil
}

func sendPlays(p *page) error {
	return playsOf(p.filters(playFilters...)).csv(p, "plays")
}

// Any reports whether a filter is set.
func (s search) Any() bool { return len(s.Filters) > 0 }
