package console

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
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

func playsOf(query url.Values, names works) list[play] {
	return list[play]{
		op: "list-receipts", query: query, plural: "receipts",
		columns: []string{"Played", "Right", "Anchor", "Medium", "For", "Decision", "Correlation id", "Receipt"}, files: map[string]string{"For": "For (ms)"},
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
				{Time: r.Receipt.RenderedAt, show: zone.when, value: stamp(r.Receipt.RenderedAt), Href: Path + "/plays/" + url.PathEscape(r.Receipt.ReceiptID)}, names.cell(r.Event.Data.RightID), text(r.Receipt.SpatialAnchorID),
				text(words(r.Event.Data.Substrate)), milliseconds(int64(r.Receipt.DwellMs)), decision, text(correlation), id(r.Receipt.ReceiptID, "/plays"),
			}
		},
	}
}

// playFilters are the filters of the operation, in the names that the address has for them.
var playFilters = []string{"spatialAnchorId", "rightId", "correlationId", "from", "to"}

// search is what the page of the plays shows.
type search struct {
	Fields   []filter
	Any      bool // a filter is set
	Table    table
	Campaign string
	Rights   []button // those that list the campaign
	Choose   bool     // there are several, and none is chosen
	Checked  bool     // there may be more of them among older rights
	Sums     string   // the address of their sums by screen; empty if the session may not read them
	Ending   string   // the end of the id that is searched for; empty if none is
	Within   string   // the time in which it is
	Earlier  string   // the address of the same search in the time before
	Problem  *problem
}

// metering are the filters of plays that sums have, too.
func (p *page) metering(query url.Values) url.Values {
	of := url.Values{}
	for _, name := range []string{"from", "to", "rightId"} {
		if value := query.Get(name); value != "" {
			of.Set(name, value)
		}
	}
	return of
}

// times makes the times of filters those of the operation.
func (p *page) times(query url.Values) error {
	for _, name := range []string{"from", "to"} {
		if written := query.Get(name); written != "" {
			t, why := p.zone().read(written)
			if why != "" {
				return invalid(name, why)
			}
			query.Set(name, stamp(t))
		}
	}
	return nil
}

func showPlays(p *page) error {
	p.show("Plays", "Plays")
	chosen := p.filters(append(playFilters, "receiptId", "campaign")...)
	s := search{Any: len(chosen) > 0, Campaign: chosen.Get("campaign")}
	var err error
	if receipt := chosen.Get("receiptId"); receipt != "" {
		if s.Ending, err = readReceipt(receipt); len(s.Ending) == receiptIDLen {
			p.redirect(Path + "/plays/" + string(api.PrefixReceipt) + s.Ending)
			return nil
		}
	}
	for _, f := range []filter{
		{Name: "campaign", Label: "Campaign", Of: campaign}, {Name: "spatialAnchorId", Label: "Anchor (screen or place)"}, {Name: "from", Label: "Played from", Kind: "time"}, {Name: "to", Label: "Played before", Kind: "time"},
		{Name: "correlationId", Label: "Correlation id"}, {Name: "rightId", Label: "Right", Of: anyRight, Example: "rgh_…"}, {Name: "receiptId", Label: "Receipt, or its end", Example: "7Q2ZDK"},
	} {
		if f.Name != "campaign" || p.can("list-rights") {
			f.Value = chosen.Get(f.Name)
			s.Fields = append(s.Fields, f)
		}
	}
	query := url.Values{}
	for _, name := range playFilters {
		if value := chosen.Get(name); value != "" {
			query.Set(name, value)
		}
	}
	if s.Campaign != "" && p.can("list-rights") && err == nil {
		rightID, err := s.readCampaign(p, chosen)
		if err != nil {
			return err
		}
		if len(s.Rights) == 1 {
			query.Set("rightId", rightID)
		}
		if s.Choose = query.Get("rightId") == ""; s.Choose { // the operation takes one right
			return p.renderPlays(s)
		}
	}
	var names works
	if err == nil {
		names, err = p.readWorks()
	}
	if err == nil {
		err = p.times(query)
	}
	if err == nil && s.Ending != "" {
		err = s.within(p, query)
	}
	if err == nil {
		s.Table, err = playsOf(query, names).table(p, chosen)
		s.Table.File = addressed(p.Path+".csv", query)
		if p.can("get-metering") && query.Has("from") && !query.Has("spatialAnchorId") && !query.Has("correlationId") && s.Ending == "" { // sums know no such filters, and without a time they are of all that was ever played
			by := p.metering(query)
			by.Set("by", "anchor")
			s.Sums = addressed(Path+"/metering.csv", by)
		}
	}
	if s.Problem = wrong(err); err != nil && s.Problem == nil {
		return err
	}
	if s.Problem != nil {
		p.answers(s.Problem)
	}
	return p.renderPlays(s)
}

func (p *page) renderPlays(s search) error {
	if err := p.chooseFilters(s.Fields); err != nil {
		return err
	}
	p.render("plays", s)
	return nil
}

// receiptIDLen is how long a receipt's id is behind its prefix, and endLen the least of its end that is searched for.
const receiptIDLen, endLen = 26, 6

// readReceipt reads the id of a receipt, or its end, as people write them: without the prefix, and as the operation takes it.
func readReceipt(written string) (end string, err error) {
	end, ok := api.IDEnd(strings.TrimPrefix(strings.ToLower(written), string(api.PrefixReceipt)))
	if !ok || len(end) < endLen {
		return "", invalid("receiptId", "must be the id of a receipt, such as rcp_01JE3N9QKZ6V8T4XW2C57Q2ZDK, or the last 6 characters of it or more, such as 7Q2ZDK")
	}
	return end, nil
}

// within makes the query one for the end of an id, in a time of 7 days: the last ones, unless the address has one.
func (s *search) within(p *page, query url.Values) error {
	var ends [2]time.Time
	for i, name := range []string{"from", "to"} {
		if written := query.Get(name); written != "" {
			ends[i], _ = p.zone().read(written)
		}
	}
	from, to := &ends[0], &ends[1]
	switch {
	case to.IsZero() && from.IsZero():
		*to = p.s.cfg.Now().Truncate(time.Minute).Add(time.Minute)
		*from = to.Add(-api.IDEndSpan)
	case to.IsZero():
		*to = from.Add(api.IDEndSpan)
	case from.IsZero():
		*from = to.Add(-api.IDEndSpan)
	case to.Sub(*from) > api.MostIDEndSpan:
		return invalid("to", "must be at most 7 days after the beginning: by the end of an id all plays of that time are looked through")
	}
	query.Set("from", stamp(*from))
	query.Set("to", stamp(*to))
	query.Set("receiptIdEnd", s.Ending)
	s.Within = p.zone().span(*from, *to)
	before := p.filters(append(playFilters, "receiptId", "campaign")...)
	before.Set("to", p.zone().field(*from))
	before.Del("from")
	s.Earlier = addressed(p.Path, before)
	return nil
}

// wrong is the error of a request that the person can change, to be shown beside the form; nil for others.
func wrong(err error) *problem {
	e := asProblem(err)
	if e == nil || e.Status != 422 && e.Status != 400 && e.Status != 409 && e.Status != 412 {
		return nil
	}
	if len(e.ValidationErrors) > 0 { // each fault is said once
		e.Message = "change this, and ask again"
	}
	return e
}

// readCampaign finds the rights that list the campaign, and returns the id of the last.
func (s *search) readCampaign(p *page, chosen url.Values) (rightID string, err error) {
	rights, err := p.newestRights()
	if err != nil {
		return "", err
	}
	for _, r := range rights.All {
		var scope struct{ Campaigns, Regions []string }
		if json.Unmarshal(r.Scope, &scope) == nil && slices.Contains(scope.Campaigns, s.Campaign) {
			like := maps.Clone(chosen)
			like.Set("rightId", r.ID)
			rightID = r.ID
			name := words(r.Substrate)
			if regions := strings.Join(scope.Regions, ", "); regions != "" {
				name += " in " + regions
			}
			s.Rights = append(s.Rights, button{name + ", from " + p.zone().begin(r.EffectiveFrom) + " (" + short(r.ID) + ")", addressed(Path+"/plays", like), r.ID == chosen.Get("rightId")})
		}
	}
	s.Checked = rights.More
	return rightID, nil
}

func sendPlays(p *page) error {
	query := p.filters(append(playFilters, "receiptIdEnd")...)
	if err := p.times(query); err != nil {
		return err
	}
	return playsOf(query, nil).csv(p, "plays")
}
