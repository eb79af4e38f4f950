package export

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"muniment.example/control/analyst"
	"muniment.example/sealer"
	"muniment.example/sealer/rate"
	"muniment.example/sealer/settlement"
)

// sums computes the tables of sums.
func (r *run) sums(ctx context.Context) error {
	if r.work.state["sums"] == done {
		return nil
	}
	r.report(Progress{Step: "summing"}, true)
	return r.work.change(ctx, map[string]string{"sums": done}, func(tx *sql.Tx) error {
		for _, t := range []struct {
			table analyst.Table
			start string
		}{{analyst.MeteringHourly, `substr(rendered_at, 1, 13) || ':00:00'`}, {analyst.MeteringDaily, `substr(rendered_at, 1, 10)`}} {
			names := storedColumns(t.table)
			if _, err := tx.ExecContext(ctx, "INSERT INTO "+t.table.Name+" ("+join(names)+") SELECT tenant_id, "+t.start+` AS start, right_id, substrate, basis_id, metering_basis, reason,
				count(*), sum(quantity_ms), sum(impressions_e4) FROM receipts GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 2, 3, 4, 5, 6, 7`); err != nil {
				return err
			}
		}
		return nil
	})
}

func join(names []string) (all string) {
	for i, name := range names {
		if i > 0 {
			all += ", "
		}
		all += name
	}
	return all
}

// rules are the newest records of the tenant's settlement rules, and what they may match of rights.
func (w *work) rules(ctx context.Context) (rules []rate.Rule, scopes map[string]settlement.Right, err error) {
	rows, err := w.db.QueryContext(ctx, `SELECT event FROM events ORDER BY generation, position`)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	newest, issued := map[string]rate.Rule{}, map[string]settlement.Right{}
	for rows.Next() {
		var text []byte
		if err := rows.Scan(&text); err != nil {
			return nil, nil, err
		}
		e, err := sealer.ParseEvent(text)
		if err != nil {
			return nil, nil, err
		}
		if e.Type != "right.issued" {
			rule, err := rate.ParseRule(e.Data)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", e.EventID, err)
			}
			newest[rule.ID] = rule
			continue
		}
		if _, known := issued[e.Subject.ID]; known || e.Subject.Kind != "right" {
			continue
		}
		var data struct{ Scope json.RawMessage }
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", e.EventID, err)
		}
		issued[e.Subject.ID], _ = settlement.ScopeOf(e.Subject.ID, data.Scope) // nothing if it is of another form
	}
	return slices.Collect(maps.Values(newest)), issued, rows.Err()
}

// settlement computes the settlement lines, as the view of ClickHouse does: a line a day, right, metering basis and
// rule.
func (r *run) settlement(ctx context.Context) error {
	if r.work.state["settlement"] == done {
		return nil
	}
	rules, scopes, err := r.work.rules(ctx)
	if err != nil {
		return err
	}
	precedence, err := rate.NewPrecedence(rules)
	if err != nil {
		return err
	}
	return r.work.change(ctx, map[string]string{"settlement": done}, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT tenant_id, substr(rendered_at, 1, 10), right_id, metering_basis, basis_id, substrate, completion, rendered_at, quantity_ms, impressions_e4
			FROM receipts WHERE metered ORDER BY 2, 3, 4`)
		if err != nil {
			return err
		}
		defer rows.Close()
		type key struct{ tenant, day, right, basis string }
		var at key
		byRule := map[*rate.Rule]rate.Sums{}
		flush := func() error {
			order := slices.SortedFunc(maps.Keys(byRule), func(a, b *rate.Rule) int { return cmp.Compare(idOf(a), idOf(b)) })
			for _, rule := range order {
				if err := addLine(ctx, tx, rule, byRule[rule], at.tenant, at.day, at.right, at.basis); err != nil {
					return err
				}
			}
			clear(byRule)
			return nil
		}
		for rows.Next() {
			var k key
			var m rate.Metered
			var rendered string
			if err := rows.Scan(&k.tenant, &k.day, &k.right, &k.basis, &m.BasisID, &m.Substrate, &m.Completion, &rendered, &m.QuantityMs, &m.Impressions); err != nil {
				return err
			}
			if k != at {
				if err := flush(); err != nil {
					return err
				}
				at = k
			}
			if m.RenderedAt, err = time.Parse(momentLayout, rendered); err != nil {
				return err
			}
			m.RightID, m.MeteringBasis = k.right, k.basis
			m.Campaigns, m.Labels = scopes[k.right].Campaigns, scopes[k.right].Labels
			rule := precedence.Of(&m)
			s := byRule[rule]
			byRule[rule] = rate.Sums{Receipts: s.Receipts + 1, QuantityMs: s.QuantityMs + m.QuantityMs, Impressions: s.Impressions + m.Impressions}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return flush()
	})
}

func idOf(rule *rate.Rule) string {
	if rule == nil {
		return ""
	}
	return rule.ID
}

// addLine stores a line; rule is nil if none rates it.
func addLine(ctx context.Context, tx *sql.Tx, rule *rate.Rule, s rate.Sums, tenant, day, right, basis string) error {
	var currency, unit, unrated string
	var price rate.Price
	var amount rate.Money
	parties, shares := []string{}, []string{}
	if rule == nil {
		unrated = rate.NoRule
	} else {
		currency, unit, price = rule.Currency, string(rule.Unit), rule.Price
		var err error
		if amount, err = rule.Amount(s); err != nil {
			unrated, amount = rate.TooLarge, 0
		} else {
			for i, share := range rule.Split(amount) {
				parties, shares = append(parties, rule.Shares[i].CounterpartyID), append(shares, share.String())
			}
		}
	}
	who, err := json.Marshal(parties)
	if err != nil {
		return err
	}
	parts, err := json.Marshal(shares)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, insert(analyst.SettlementLines), tenant, day, right, basis, idOf(rule), currency, unit, int64(price),
		s.Receipts, s.QuantityMs, s.Impressions, unrated, int64(amount), string(who), string(parts))
	return err
}
