package verify

import (
	"maps"
	"unique"

	"muniment/sealer"
)

// keepRights keeps the rights of rated receipts, if it matters what their scopes are: the events that issued them
// may be in other files.
func (c *packCheck) keepRights() {
	if names, err := sealer.ScopeNamesOf(c.header.Rules()); err == nil && !names.Empty() {
		c.rights = c.ledger.RatedRights()
	}
}

// packScopes compares what packs state of the scopes of rights with the events that issued these. It is called once
// all files with events are judged.
func (v *verification) packScopes() {
	v.issued = make(map[string]map[keptID]sealer.SettlementRight)
	for i := range v.files {
		if f := &v.files[i]; f.conduct != nil && f.ok() {
			if v.issued[f.conduct.tenantID] == nil {
				v.issued[f.conduct.tenantID] = make(map[keptID]sealer.SettlementRight)
			}
			maps.Copy(v.issued[f.conduct.tenantID], f.conduct.scopes)
		}
	}
	for tenantID, packs := range v.packs {
		for _, p := range packs {
			c := p.report.pack
			if c == nil || len(c.rights) == 0 || !p.report.ok() {
				continue
			}
			names, _ := sealer.ScopeNamesOf(c.header.Rules()) // keepRights has read them
			wrong, unproven := v.scopes(tenantID, &names, c.rights, c.header.Rights())
			if wrong != "" {
				p.report.fail(SettlementMismatch, "%s", wrong)
			}
			if unproven > 0 {
				p.report.pass(SettlementUnproven, unprovenScopes, count(unproven, "right"))
			}
		}
	}
}

const unprovenScopes = "no given file holds the events that issued %s: for what rules name of these there is no proof"

// scopes reports whether what the statement states of the scopes of rights does not contradict the events that
// issued these.
func (s *statementFile) scopes(v *verification, t *sealer.Terms, rights []string) bool {
	if t.Names().Empty() {
		return true
	}
	wrong, unproven := v.scopes(s.said.TenantID, t.Names(), rights, s.said.Rights)
	if wrong != "" {
		s.fail(StatementRule, "%s", wrong)
		return false
	}
	if unproven > 0 {
		s.pass(StatementUnproven, unprovenScopes, count(unproven, "right"))
	}
	return true
}

// scopes compares what is stated of rights with the events that issued them, and counts the others.
func (v *verification) scopes(tenantID string, names *sealer.ScopeNames, rights []string, stated []sealer.SettlementRight) (wrong string, unproven int) {
	said := make(map[string]sealer.SettlementRight)
	for _, r := range stated {
		said[r.RightID] = r
	}
	for _, id := range rights {
		scope, known := v.issued[tenantID][unique.Make(id)]
		if !known {
			unproven++
			continue
		}
		is, said := sealer.SettlementRight{RightID: id}, said[id]
		said.RightID = id
		if named := names.Of([]sealer.SettlementRight{scope}); len(named) > 0 {
			is = named[0]
		}
		if !sealer.SameRight(is, said) {
			return "rules name of the right " + describeRight(&is) + ", as its event says; what is stated is " + describeRight(&said), unproven
		}
	}
	return "", unproven
}
