//go:build independent

package independent_test

import (
	"encoding/json"
	"slices"
	"strings"
)

// settlements are lies about the settlement alone. The last is always possible.
var settlements = []func(f *forgery, s object) bool{
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "amount", "0.000001") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "amount", "1.0") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "amount", 1) },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "rightId", "rgh_other") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "ruleId", "rule_other") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "meteringBasis", "audible") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "quantityMs", 1) },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "receipts", 10_000) },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("lines")), "currency", "EUR") },
	func(f *forgery, s object) bool {
		line := f.some(s.list("lines"))
		return line != nil && f.drop(line, "shares")
	},
	func(f *forgery, s object) bool {
		line := f.some(s.list("lines"))
		if line == nil {
			return false
		}
		was := line.list("shares")
		now := slices.Clone(was)
		slices.Reverse(now)
		return amiss(line, "shares", now)
	},
	func(f *forgery, s object) bool { return f.drop(s, "lines") },
	func(f *forgery, s object) bool {
		line := f.some(s.list("lines"))
		s["lines"] = append(s.list("lines"), any(map[string]any(line)))
		return line != nil
	},
	func(f *forgery, s object) bool {
		was := s.list("lines")
		now := slices.Clone(was)
		slices.Reverse(now)
		return amiss(s, "lines", now)
	},
	func(f *forgery, s object) bool { return f.drop(s, "unrated") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("unrated")), "reason", "OTHER") },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("unrated")), "receipts", 10_000) },
	func(f *forgery, s object) bool { return amiss(f.some(s.list("unrated")), "quantityMs", 1) },
	func(f *forgery, s object) bool {
		return amiss(f.newRule(s), "leaf", f.before.Size()+uint64(len(f.events)))
	},
	func(f *forgery, s object) bool { return amiss(f.newRule(s), "rule", map[string]any{}) },
	func(f *forgery, s object) bool { return amiss(f.newRule(s), "rule", nil) },
	func(f *forgery, s object) bool {
		r := f.newRule(s)
		return r != nil && amiss(r.in("rule"), "unit", "HOUR")
	},
	func(f *forgery, s object) bool {
		r := f.newRule(s)
		return r != nil && amiss(r.in("rule"), "price", "1")
	},
	func(f *forgery, s object) bool {
		r := f.newRule(s)
		return r != nil && amiss(r.in("rule"), f.text(), "more")
	},
	func(f *forgery, s object) bool {
		r := f.newRule(s)
		s["rules"] = slices.DeleteFunc(s.list("rules"), func(other any) bool { return r != nil && other.(map[string]any)["leaf"] == r["leaf"] })
		return r != nil
	},
	func(f *forgery, s object) bool {
		list := s.list("rules")
		s["rules"] = append(list, list[0])
		return true
	},
	func(f *forgery, s object) bool {
		f.header["settlement"] = append(f.header.list("settlement"), map[string]any(s))
		return true
	},
	func(f *forgery, s object) bool { s["more"] = nil; return true },
	func(f *forgery, s object) bool { s["rules"] = []any{}; return true },
}

// badRule makes a rule that can't be rated by.
func badRule(s *service, rule object) {
	first := func() object { return rule.list("shares")[0].(map[string]any) }
	switch s.next("rule", 17) {
	case 0:
		rule["price"] = []string{"1.0", "01", "-1", "1e3", ".5", "0.0000000001", "9223372036.854775808", "", "٣"}[s.next("price", 9)]
	case 1:
		rule["currency"] = []string{"eur", "EU", "EURO", "", "É2"}[s.next("currency", 5)]
	case 2:
		rule["priority"] = []any{-1, 1_000_001, 0.5, "0"}[s.next("priority", 4)]
	case 3:
		first()["bps"] = 0
	case 4:
		first().add("bps", 1)
	case 5:
		rule["shares"] = append(rule.list("shares"), any(map[string]any(first())))
	case 6:
		rule["shares"] = []any{}
	case 7:
		rule["effectiveUntil"] = rule["effectiveFrom"]
		rule["state"] = "ACTIVE" // of a RETIRED one it may be so
	case 8:
		rule[[]string{"effectiveFrom", "createdAt", "updatedAt"}[s.next("time", 3)]] = []string{"1969-12-31T23:59:59.999Z", "2026-03-01T00:00:00Z", "0000-01-01T00:00:00.000Z"}[s.next("moment", 3)]
	case 9:
		rule["match"].(map[string]any)["rightId"] = ""
	case 10:
		delete(rule, "state")
	case 11:
		rule["revision"] = -1
	case 12:
		rule[[]string{"minimum", "cap"}[s.next("bound", 2)]] = []any{"1.0", "-1", "0.0000001", "9223372036854.775808", "", 1}[s.next("amount", 6)]
	case 13:
		rule["minimum"], rule["cap"] = "0.000001", "0"
	case 14:
		rule["timeZone"] = []any{"", strings.Repeat("z", 65), 1, nil}[s.next("zone", 4)]
	case 15:
		rule["tiersMode"] = []any{"", "FLAT", 1}[s.next("mode", 3)]
	case 16:
		rule["tiers"], rule["tiersMode"] = []any{
			[]any{object{"above": 0, "price": "1"}}, []any{object{"above": 1, "price": "1.0"}}, []any{object{"above": 1 << 53, "price": "1"}, object{"above": 1, "price": "1"}},
			[]any{object{"above": 1, "price": "-1"}}, []any{object{"above": 1.5, "price": "1"}}, []any{object{"price": "1"}},
		}[s.next("tiers", 6)], "VOLUME"
	}
}

// newRule is a rule of this pack: a lie about an older one can't be found.
func (f *forgery) newRule(s object) object {
	for _, r := range s.list("rules") {
		if leaf, err := object(r.(map[string]any))["leaf"].(json.Number).Int64(); err == nil && leaf >= int64(f.before.Size()) {
			return r.(map[string]any)
		}
	}
	return nil
}
