package gate

// program is the tables flattened for one pass over each substrate's checks.
type program [Substrates]struct {
	checks []check // of everybody
	minors []check // of minors besides
}

// check is a compiled term: it adds its row to the outcome when the facts under
// mask are exactly want.
type check struct {
	mask, want factSet
	row        outcome
}

// outcome is a set of rows: rule i is bit i, suppression i bit suppressShift+i.
type outcome uint64

const suppressShift = 32

func (o outcome) refusals() uint32    { return uint32(o) }
func (o outcome) suppressed() Reasons { return Reasons(o >> suppressShift) }

var compiled = compile(rules, suppressions)

func compile(rules []rule, suppressions []suppression) *program {
	var p program
	for i := range rules {
		p.add(rules[i].On, rules[i].Terms, 1<<i)
	}
	for i := range suppressions {
		p.add(suppressions[i].On, suppressions[i].Terms, 1<<(suppressShift+i))
	}
	return &p
}

func (p *program) add(set surfaces, terms []term, row outcome) {
	for s := range Substrate(Substrates) {
		for i := range terms {
			t := &terms[i]
			if !t.visible(set, s) {
				continue
			}
			all, none := setOf(t.All), setOf(t.None)
			c := check{mask: all | none, want: all, row: row}
			if t.forMinors() {
				p[s].minors = append(p[s].minors, c)
			} else {
				p[s].checks = append(p[s].checks, c)
			}
		}
	}
}

// run evaluates the facts of one delivery on s. The second outcome is what only
// the terms for minors add.
func (p *program) run(s Substrate, stated factSet) (all, minorOnly outcome) {
	all = match(p[s].checks, stated)
	if stated.has(minorTrue) {
		minorOnly = match(p[s].minors, stated) &^ all
		all |= minorOnly
	}
	return all, minorOnly
}

func match(checks []check, stated factSet) outcome {
	var o outcome
	for i := range checks {
		if c := &checks[i]; stated&c.mask == c.want {
			o |= c.row
		}
	}
	return o
}
