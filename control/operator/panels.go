package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"muniment.example/control/access"
	"muniment.example/control/node"
	"muniment.example/control/proof"
	"muniment.example/control/route"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// away is the answer where a part of the service can't be read. It names the part and the cause, as
// /readyz does.
func away(part string, cause error) error {
	why := cause.Error()
	if errors.Is(cause, context.DeadlineExceeded) {
		why = fmt.Sprintf("no answer in %v", readTime)
	}
	return api.Unavailable(api.EngineUnavailable, "control can't reach the "+part+": "+strings.ToValidUTF8(why[:min(len(why), 300)], "\uFFFD"), time.Second)
}

func (s *Service) getNodes(ctx context.Context, _ *struct{}) (node.Overview, error) {
	return s.cfg.Nodes.Overview(ctx)
}

// Lag is how far the warehouse is behind the log.
type Lag struct {
	Behind     int64       `json:"behind" doc:"Records of the log that are not loaded yet."`
	Partitions []Partition `json:"partitions"`
}

// Partition is a partition of the log.
type Partition struct {
	Partition int32  `json:"partition"`
	Loaded    string `json:"loaded" doc:"The position after the last loaded record; empty if nothing is loaded."`
	End       string `json:"end" doc:"The position that the next record will get."`
	Behind    int64  `json:"behind"`
}

func (s *Service) getLag(ctx context.Context, _ *struct{}) (Lag, error) {
	lag := Lag{Partitions: []Partition{}}
	n, err := s.cfg.Log.Partitions(ctx)
	if err != nil {
		return lag, away("log", err)
	}
	for partition := range int32(n) {
		first, end, err := s.cfg.Log.Bounds(ctx, partition)
		if err != nil {
			return lag, away("log", err)
		}
		next, loaded, err := s.cfg.Warehouse.Resume(ctx, partition)
		if err != nil {
			return lag, away("warehouse", err)
		}
		p := Partition{Partition: partition, End: end.String(), Behind: end.Offset - first.Offset}
		if loaded {
			p.Loaded = next.String()
		}
		if loaded && next.Generation == end.Generation { // of a log that was made anew nothing is loaded
			p.Behind = max(0, end.Offset-next.Offset)
		}
		lag.Partitions = append(lag.Partitions, p)
		lag.Behind += p.Behind
	}
	return lag, nil
}

// Drift is what the check for drift of this process has found.
type Drift struct {
	Checking bool             `json:"checking" doc:"This process checks now; of several control processes one does."`
	Drift    map[string]int64 `json:"drift" doc:"Differences that two checks have found, by kind; must be 0."`
	Checked  map[string]int64 `json:"checked" doc:"What was compared since this process started, by check."`
	Failures int64            `json:"failures" doc:"Failed checks, for example because the warehouse is away."`
}

func (s *Service) getDrift(context.Context, *struct{}) (Drift, error) {
	d := Drift{Checking: s.cfg.Checking(), Drift: map[string]int64{}, Checked: map[string]int64{}}
	families, err := s.cfg.Drift.Gather()
	if len(families) == 0 && err != nil {
		return d, fmt.Errorf("cannot gather the metrics of drift: %w", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			label := ""
			if len(m.GetLabel()) > 0 {
				label = m.GetLabel()[0].GetValue()
			}
			switch f.GetName() {
			case "muniment_metering_drift":
				d.Drift[label] = int64(m.GetGauge().GetValue())
			case "muniment_metering_checked_total":
				d.Checked[label] = int64(m.GetCounter().GetValue())
			case "muniment_metering_check_failures_total":
				d.Failures = int64(m.GetCounter().GetValue())
			}
		}
	}
	return d, nil
}

type refusalsInput struct {
	Hours int `query:"hours" minimum:"1" maximum:"24" default:"6"`
}

// Refusals are how many deliveries each rule has refused.
type Refusals struct {
	From  store.Instant `json:"from"`
	To    store.Instant `json:"to"`
	Rules []Rule        `json:"rules" doc:"The highest first, at most 100."`
}

// Rule is how many deliveries a rule has refused. One that broke two rules counts under both.
type Rule struct {
	Rule     string `json:"rule"`
	Refusals int64  `json:"refusals"`
}

// mostRules is how many rules are listed; the gate has fewer.
const mostRules = 100

func (s *Service) getRefusals(ctx context.Context, in *refusalsInput) (Refusals, error) {
	now := s.cfg.Now()
	from := now.Add(-time.Duration(in.Hours) * time.Hour)
	all := Refusals{From: store.At(from), To: store.At(now), Rules: []Rule{}}
	rows, err := s.cfg.Warehouse.RefusalsByRule(ctx, from, now)
	if err != nil {
		return all, away("warehouse", err)
	}
	for _, r := range rows[:min(len(rows), mostRules)] {
		all.Rules = append(all.Rules, Rule{r.Rule, r.Refusals})
	}
	return all, nil
}

// mostListed is how many quarantined records, and how many applications, a panel lists.
const mostListed = 50

func (s *Service) getQuarantine(ctx context.Context, _ *struct{}) (proof.QuarantinedList, error) {
	list, err := s.cfg.Packs.ListQuarantined(ctx, mostListed)
	if err != nil {
		return list, away("warehouse", err)
	}
	return list, nil
}

type applicationsInput struct {
	State string `query:"state" enum:"UNCONFIRMED,RECEIVED,APPROVED,ACTIVATED,REFUSED,EXPIRED"`
}

// Applications are the newest applications for keys in the state that was asked for, and how many need
// an operator, in whatever state.
type Applications struct {
	access.Counts
	Applications []access.Listed `json:"applications"`
	More         bool            `json:"more" doc:"There are others: muniment access list has all."`
}

func (s *Service) getApplications(ctx context.Context, in *applicationsInput) (Applications, error) {
	all := Applications{Applications: []access.Listed{}}
	list, err := s.cfg.Access.Applications(ctx, &access.ListInput{State: in.State, Page: route.Page{Limit: mostListed}})
	if err != nil {
		return all, err
	}
	all.Applications = append(all.Applications, list.Applications...)
	all.More = list.NextCursor != nil
	all.Counts, err = s.cfg.Access.Counts(ctx)
	return all, err
}

// decisionInput is a decision on an application.
type decisionInput struct {
	access.OneInput
	Body struct {
		State access.State `json:"state" enum:"UNCONFIRMED,RECEIVED,APPROVED" doc:"The state in which the operator saw it: 409 if it is in another one by now."`
	}
}

// Decided is the answer to a decision.
type Decided struct {
	Application access.Listed `json:"application"`
}

func (s *Service) postApprove(ctx context.Context, in *decisionInput) (Decided, error) {
	one, err := s.cfg.Access.Approve(ctx, in.ApplicationID, in.Body.State)
	return Decided{one.Application}, err
}

func (s *Service) postRefuse(ctx context.Context, in *decisionInput) (Decided, error) {
	one, err := s.cfg.Access.Refuse(ctx, in.ApplicationID, in.Body.State)
	return Decided{one.Application}, err
}

func (s *Service) postRefuseMany(ctx context.Context, in *struct{ Body access.Refusal }) (access.RefusedCount, error) {
	return s.cfg.Access.RefuseAll(ctx, in.Body)
}
