package console

import (
	"fmt"
	"net/url"
	"time"

	"muniment.example/gateway/client"
)

// taskReader finds what of one operation needs somebody.
type taskReader struct {
	op   string
	read func(p *page, now time.Time) (*task, error)
}

// checked is how many records of a list are looked at, the newest first.
const checked = 500

// todo is what to do about a task: for who may call the operation, and who may only look.
func (p *page) todo(op, act, look string) string {
	if p.can(op) {
		return act
	}
	return look
}

// disputed counts the disputes in a state: until it is resolved each holds money.
func disputed(state, one, several, act string) taskReader {
	return taskReader{"list-disputes", func(p *page, _ time.Time) (*task, error) {
		return waiting[client.Dispute](p, "list-disputes", "disputes", url.Values{"state": {state}}, task{One: one, Text: several, Href: Path + "/disputes?state=" + state, Do: p.todo("resolve-dispute", act, "See them"), Bad: state == "OPEN"}, nil)
	}}
}

var taskReaders = []taskReader{
	disputed("OPEN", "open dispute holds plays out of settlement", "open disputes hold plays out of settlement", "Look into them"),
	disputed("INVESTIGATING", "dispute is looked into, and holds plays out of settlement", "disputes are looked into, and hold plays out of settlement", "Respond, or decide them"),
	disputed("RESPONDED", "dispute was responded to, and waits for a decision", "disputes were responded to, and wait for a decision", "Decide them"),
	{"list-challenges", func(p *page, _ time.Time) (*task, error) {
		return waiting[client.Challenge](p, "list-challenges", "challenges", url.Values{"state": {"OPEN"}}, task{One: "challenge of a right is open", Text: "challenges of rights are open", Href: Path + "/challenges?state=OPEN", Do: p.todo("resolve-challenge", "Resolve them", "See them")}, nil)
	}},
	{"list-offers", func(p *page, _ time.Time) (*task, error) {
		own, err := p.ownOrg()
		if err != nil {
			return nil, err
		}
		whose := "your"
		if own == "" { // which of them wait for the other side is not known
			whose = "an"
		}
		return waiting(p, "list-offers", "offers", url.Values{"state": {"PROPOSED"}}, task{One: "offer waits for " + whose + " answer", Text: "offers wait for " + whose + " answer", Href: Path + "/offers?state=PROPOSED", Do: p.todo("accept-offer", "Answer them", "See them")},
			func(o client.Offer) bool { return own == "" || o.ToOrgID == own })
	}},
	{"list-payouts", func(p *page, now time.Time) (*task, error) {
		return waiting[client.Payout](p, "list-payouts", "payouts", nil, task{One: "payout is due", Text: "payouts are due", Href: Path + "/money/payouts", Do: p.todo("settle-statement", "Pay them", "See them")}, nil)
	}},
	{"list-statements", func(p *page, now time.Time) (*task, error) {
		return waiting(p, "list-statements", "statements", url.Values{"state": {"DRAFT"}}, task{One: "draft of a statement waits, and its period has ended", Text: "drafts of statements wait, and their periods have ended", Href: Path + "/money/statements?state=DRAFT", Do: p.todo("issue-statement", "Issue or discard them", "See them")},
			func(s client.Statement) bool { return !s.To.After(now) })
	}},
	{"list-webhooks", func(p *page, _ time.Time) (*task, error) {
		return waiting(p, "list-webhooks", "webhooks", nil, task{One: "webhook fails, or was stopped by the service", Text: "webhooks fail, or were stopped by the service", Href: Path + "/webhooks", Do: p.todo("change-webhook", "Repair them", "See them"), Bad: true},
			func(w client.Webhook) bool { return !w.FailingSince.IsZero() || w.StateReason != "" })
	}},
	{"list-held-rows", func(p *page, _ time.Time) (*task, error) {
		return waiting[client.HeldRow](p, "list-held-rows", "held", url.Values{"state": {"HELD"}}, task{One: "reported play is held: it waits for a mapping or for a suspended right", Text: "reported plays are held: they wait for a mapping or for a suspended right", Href: Path + "/held", Do: "See what they wait for"}, nil)
	}},
	{"list-rejected-plays", func(p *page, _ time.Time) (*task, error) {
		return waiting[client.RejectedPlay](p, "list-rejected-plays", "rejected", nil, task{One: "play of a player was rejected", Text: "plays of players were rejected", Href: Path + "/rejected", Do: "See why", Bad: true}, nil)
	}},
	{"list-rights", func(p *page, _ time.Time) (*task, error) {
		return waiting[client.Right](p, "list-rights", "rights", url.Values{"state": {"SUSPENDED"}}, task{One: "right is suspended, and is not resumed by itself", Text: "rights are suspended, and are not resumed by themselves", Href: Path + "/rights?state=SUSPENDED", Do: p.todo("resume-right", "Resume or revoke them", "See them")}, nil)
	}},
	{"list-rights", func(p *page, _ time.Time) (*task, error) {
		return endingSoon(p, "list-rights", "rights", task{One: "right ends within 14 days", Text: "rights end within 14 days", Href: Path + "/rights", Do: p.todo("issue-right", "Renew them", "See them")}, notRevoked)
	}},
	{"list-bases", func(p *page, _ time.Time) (*task, error) {
		return endingSoon[client.Basis](p, "list-bases", "bases", task{One: "legal basis ends within 14 days, and all rights on it", Text: "legal bases end within 14 days, and all rights on them", Href: Path + "/bases", Do: p.todo("create-basis", "Renew them", "See them")}, nil)
	}},
	{"list-api-keys", func(p *page, now time.Time) (*task, error) {
		return waiting(p, "list-api-keys", "keys", nil, task{One: "API key expires within 14 days", Text: "API keys expire within 14 days", Href: Path + "/keys", Do: "Rotate them"},
			func(k client.APIKey) bool { return k.RevokedAt.IsZero() && endsSoon(k.ExpiresAt, now) })
	}},
}

func endsSoon(end, now time.Time) bool {
	return !end.IsZero() && end.After(now) && end.Before(now.Add(soon))
}

// waiting counts the records of a list that need somebody: those that the filters select, and of these
// those that needs selects; nil is all.
func waiting[T any](p *page, op, plural string, filters url.Values, t task, needs func(T) bool) (*task, error) {
	limit := fmt.Sprint(checked)
	if needs == nil {
		limit = "100" // they are counted only
	}
	records, next, err := list[T]{op: op, query: filters, plural: plural}.records(p, "", limit, false)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if needs == nil || needs(r) {
			t.Count++
		}
	}
	if t.Count == 1 {
		t.Text = t.One
	}
	t.More = next != ""
	return &t, nil
}
