package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"muniment.example/gateway/api"
	"muniment.example/sealer"
	"muniment.example/sealer/canonical"
)

// Personal describes what the rows of a table may say about persons. It is the one list of that: what
// an erasure removes, its preview counts and an export shows. sealer.Person decides which texts name
// a person. Ids that the service has made name nobody.
type Personal struct {
	// Kind is what a row is called in previews, exports and certificates. Empty: no row is searched.
	Kind string
	// Key are the columns of the primary key. Exports show the first.
	Key []string
	// Person are the columns that hold a reference to a person, such as an e-mail address, and nothing
	// else.
	Person []string
	// Persons are the columns with a list of such references, as JSON; empty for none. Who is erased is
	// no longer in the list.
	Persons []string
	// Text are the columns with free text. A text that names a person is erased as a whole.
	Text []string
	// Emptied are those of Text that become NULL and get no replacement: others would use it as if it were the text.
	Emptied []string
	// JSON are the members with free text of columns with JSON, as column.member, or column.* for all. A
	// text that names a person is erased as a whole; the rest of the JSON stays, byte for byte.
	JSON []string
	// Parties are lists of columns of Text and members of JSON that are about one party each. If the first of a
	// list is the person, and nothing else but spaces around, the party is the person, and all of the list is
	// erased.
	Parties [][]string
	// About is an SQL expression for the reference to the person whom the row is about, or a column of
	// Persons. A row about an erased person, and no other, loses the columns Related too: one that is also
	// in Text gets the replacement, others become empty. One that is also in JSON loses of other rows what
	// names the person.
	About   string
	Related []string
	// Also are further assignments of the statement that erases something of a row.
	Also string
	// Where is a condition for the rows that may name persons. Empty: all.
	Where string
	// Record is the column with the id of the record whose events have these texts in their private
	// parts; empty: no event has. Noun is what these events call it.
	Record, Noun string
	// Unseen is a condition for rows that came back from the log without the texts that the private parts of
	// their record's events have: these may name anybody. Empty: there are none.
	Unseen string
	// Before runs before the rows are searched to erase them, for example to wait for transactions
	// that write such rows and are no changes.
	Before func(ctx context.Context, tx *Tx, tenantID string) error
	// Versions are columns of which one has another value whenever a row has another text, the only one of Key among them: of
	// a table that may have many rows, all in one index behind tenant_id. Such a table is searched ahead of the change
	// that erases (Tables.Ahead), and there only what was written since. Empty: it is searched in the change.
	Versions []string
	// Large tables are only rewritten by PostgreSQL if something was erased from them.
	Large bool
	// Kept are the columns with free text that an erasure has to leave, as what the row is found by; of a
	// column with JSON, its members, as column.member. Previews count the rows in which they name a person.
	Kept []string
	// Passing are columns with personal data that is soon deleted, so it is not searched.
	Passing []string
}

// columns lists all columns with personal data.
func (p *Personal) columns() []string {
	if p == nil {
		return nil
	}
	return append(p.searched(), p.Passing...)
}

// searched lists the columns that are read to search a row.
func (p *Personal) searched() (list []string) {
	add := func(columns ...string) {
		for _, c := range columns {
			if !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
	}
	add(p.Person...)
	add(p.Persons...)
	add(p.Text...)
	for _, path := range p.JSON {
		column, _, _ := strings.Cut(path, ".")
		add(column)
	}
	add(p.Related...)
	return list
}

// members lists the members of a column with JSON that are free text.
func (p *Personal) members(column string) (list []string) {
	for _, path := range p.JSON {
		if in, member, _ := strings.Cut(path, "."); in == column {
			list = append(list, member)
		}
	}
	return list
}

// Mention is a text about a person in the database.
type Mention struct {
	Kind  string `json:"kind"`
	ID    string `json:"id"`
	Field string `json:"field"`
	Text  string `json:"text"`
}

// Found is what the tables have about a person.
type Found struct {
	// Rows counts the rows, by kind.
	Rows map[string]int64
	// Records are the ids of records whose texts name the person, sorted.
	Records []string
	// Nouns are those of the records whose events may name the person in their private parts, sorted.
	Nouns []string
}

// Sight is a row about a person: what an erasure removes from it, and the texts that an export of another
// person may show with that: those that name the person, and of a row that is about somebody all.
type Sight struct {
	Mentions []Mention
	Texts    []string
}

// Find searches the rows of a tenant for a person, and calls take for each that was found; nil: it
// only counts. take must not use q.
func (all Tables) Find(ctx context.Context, q Querier, tenantID string, person sealer.Person, take func(Sight) error) (Found, error) {
	return all.search(ctx, q, tenantID, person, "", take, nil, nil)
}

// Ahead is what a search has seen ahead of the change that erases a person. It has a few dozen bytes of each row.
type Ahead struct{ tables map[string]*seenTable }

// seenTable is what was seen of a table: all versions, hashed, and the keys of the rows that name the person.
type seenTable struct {
	versions map[[16]byte]struct{}
	found    []any
}

// Ahead searches the tables with Versions, in one state of the database: other changes would wait for long if Erase did.
func (all Tables) Ahead(ctx context.Context, q Querier, tenantID string, person sealer.Person) (*Ahead, error) {
	ahead := &Ahead{map[string]*seenTable{}}
	if person == (sealer.Person{}) {
		return ahead, nil
	}
	for i := range all {
		t := &all[i]
		if t.Personal == nil || len(t.Personal.Versions) == 0 {
			continue
		}
		seen := &seenTable{versions: map[[16]byte]struct{}{}}
		err := t.eachVersion(ctx, q, tenantID, func(version [16]byte, _ any) { seen.versions[version] = struct{}{} })
		if err != nil {
			return nil, err
		}
		s := newTableSearch(t, tenantID, person, "")
		for more := true; more; {
			var rows []*foundRow
			if rows, more, err = s.next(ctx, q); err != nil {
				return nil, err
			}
			for _, r := range rows {
				seen.found = append(seen.found, r.key[0])
			}
		}
		ahead.tables[t.Name] = seen
	}
	return ahead, nil
}

// eachVersion reads the versions of a tenant's rows, with their keys.
func (t *Table) eachVersion(ctx context.Context, q Querier, tenantID string, take func(version [16]byte, key any)) error {
	columns := t.Personal.Versions
	scan := func(row Row) ([]any, error) {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		return values, row.Scan(into...)
	}
	return Each(ctx, q, "the versions of "+t.Name, scan, func(values []any) error {
		hash := sha256.Sum256(fmt.Appendf(nil, "%q", values))
		take([16]byte(hash[:16]), values[slices.Index(columns, t.Personal.Key[0])])
		return nil
	}, `SELECT `+strings.Join(columns, ", ")+` FROM `+t.Name+` WHERE tenant_id = $1`, tenantID)
}

// left lists the keys of the rows that are to be searched in the change: those that named the person, and those that have
// been written since.
func (ahead *Ahead) left(ctx context.Context, q Querier, t *Table, tenantID string) (keys []any, searched bool, err error) {
	if ahead == nil || ahead.tables[t.Name] == nil {
		return nil, false, nil
	}
	seen, known := ahead.tables[t.Name], map[any]bool{}
	for _, key := range seen.found {
		known[key] = true
	}
	keys = slices.Clone(seen.found)
	err = t.eachVersion(ctx, q, tenantID, func(version [16]byte, key any) {
		if _, is := seen.versions[version]; !is && !known[key] {
			keys = append(keys, key)
		}
	})
	return keys, true, err
}

// Kept counts the rows of a tenant in which a text that Erase leaves names a person, by kind.
func (all Tables) Kept(ctx context.Context, q Querier, tenantID string, person sealer.Person) (map[string]int64, error) {
	var kept Tables
	for _, t := range all {
		if t.Personal == nil || len(t.Personal.Kept) == 0 {
			continue
		}
		p := &Personal{Kind: t.Personal.Kind, Key: t.Personal.Key}
		for _, path := range t.Personal.Kept {
			if strings.Contains(path, ".") {
				p.JSON = append(p.JSON, path)
			} else {
				p.Text = append(p.Text, path)
			}
		}
		kept = append(kept, Table{Name: t.Name, Personal: p})
	}
	found, err := kept.Find(ctx, q, tenantID, person, nil)
	return found.Rows, err
}

// Erase replaces everything that Find finds. ahead is what Ahead has seen of the same person; nil: nothing.
func (all Tables) Erase(ctx context.Context, tx *Tx, tenantID string, person sealer.Person, replacement string, ahead *Ahead, take func(Sight) error) (Found, error) {
	for _, t := range all {
		if t.Personal == nil || t.Personal.Before == nil {
			continue
		}
		if err := t.Personal.Before(ctx, tx, tenantID); err != nil {
			return Found{}, fmt.Errorf("cannot erase a person from %s of the tenant %s: %w", t.Name, tenantID, err)
		}
	}
	return all.search(ctx, tx, tenantID, person, replacement, take, tx, ahead)
}

// piece is how many rows are held in memory.
const piece = 500

// search searches all tables, and erases if tx is not nil.
func (all Tables) search(ctx context.Context, q Querier, tenantID string, person sealer.Person, replacement string, take func(Sight) error, tx *Tx, ahead *Ahead) (found Found, err error) {
	found.Rows = map[string]int64{}
	records, nouns := map[string]bool{}, map[string]bool{}
	for i := range all {
		t := &all[i]
		if t.Personal == nil || t.Personal.Kind == "" || person == (sealer.Person{}) {
			continue
		}
		s := newTableSearch(t, tenantID, person, replacement)
		if s.left, s.ahead, err = ahead.left(ctx, q, t, tenantID); err != nil {
			return found, err
		}
		for more := true; more; {
			var rows []*foundRow
			if rows, more, err = s.next(ctx, q); err != nil {
				return found, err
			}
			for _, r := range rows {
				if tx != nil {
					if r, err = s.erase(ctx, tx, r); err != nil {
						return found, err
					}
					if r == nil {
						continue // another process was faster
					}
				}
				found.Rows[t.Personal.Kind]++
				if r.named && r.record != "" {
					records[r.record], nouns[t.Personal.Noun] = true, true
				}
				if take == nil {
					continue
				}
				if err := take(r.Sight); err != nil {
					return found, err
				}
			}
		}
	}
	for _, t := range all {
		if t.Personal == nil || t.Personal.Unseen == "" || person == (sealer.Person{}) {
			continue
		}
		some, err := One(ctx, q, "what came back from the log to "+t.Name, Text, `SELECT `+t.Personal.Record+` FROM `+t.Name+` WHERE tenant_id = $1 AND `+t.Personal.Unseen+` LIMIT 1`, tenantID)
		if err != nil {
			return found, err
		}
		if some != nil {
			nouns[t.Personal.Noun] = true
		}
	}
	found.Records, found.Nouns = slices.Sorted(maps.Keys(records)), slices.Sorted(maps.Keys(nouns))
	return found, nil
}

// tableSearch searches one table.
type tableSearch struct {
	*Table
	*Personal
	tenantID, replacement string
	person                sealer.Person
	columns               []string // that are searched
	read                  string   // what is read of a row
	where                 string
	args                  []any
	behind                []any // the key of the last row that was read; nil: none
	ahead                 bool  // only the rows with the keys in left are searched
	left                  []any
}

// foundRow is a row that names the person.
type foundRow struct {
	Sight
	key     []any
	record  string
	named   bool // a text names the person, and not only the reference to whom the row is about
	changes map[string]string
}

func newTableSearch(t *Table, tenantID string, person sealer.Person, replacement string) *tableSearch {
	s := &tableSearch{Table: t, Personal: t.Personal, tenantID: tenantID, person: person, replacement: replacement, columns: t.Personal.searched()}
	about, record := s.About, s.Record
	if about == "" {
		about = "NULL"
	}
	if record == "" {
		record = "NULL"
	}
	s.read = strings.Join(slices.Concat(s.Key, []string{record, about}, s.columns), ", ")
	s.args = []any{tenantID}
	condition := `%[1]s <> ''`
	if fragment := person.Fragment(); fragment != "" {
		s.args = append(s.args, fragment, `\`)
		condition = `replace(%[1]s, $2, '') <> %[1]s OR replace(%[1]s, $3, '') <> %[1]s`
	}
	var any []string
	for _, c := range append([]string{about}, s.columns...) {
		if c != "NULL" && (!slices.Contains(s.Related, c) || slices.Contains(s.Text, c) || len(s.members(c)) > 0) {
			any = append(any, fmt.Sprintf(condition, c))
		}
	}
	s.where = ` FROM ` + t.Name + ` WHERE tenant_id = $1 AND (` + strings.Join(any, " OR ") + `)`
	if s.Where != "" {
		s.where += ` AND ` + s.Where
	}
	return s
}

// next reads a piece of the table, and returns what was found there.
func (s *tableSearch) next(ctx context.Context, q Querier) (found []*foundRow, more bool, err error) {
	query, args := `SELECT `+s.read+s.where, slices.Clone(s.args)
	if s.ahead {
		keys := s.left[:min(piece, len(s.left))]
		if s.left = s.left[len(keys):]; len(keys) == 0 {
			return nil, false, nil
		}
		query += ` AND ` + s.Key[0] + ` IN (` + Marks(len(args), len(keys)) + `)`
		args = append(args, keys...)
	} else if s.behind != nil {
		query += ` AND (` + strings.Join(s.Key, ", ") + `) > (` + Marks(len(args), len(s.Key)) + `)`
		args = append(args, s.behind...)
	}
	n := 0
	err = Each(ctx, q, "what names a person in "+s.Name, s.scan, func(r *foundRow) error {
		n++
		if s.behind = r.key; len(r.changes) > 0 {
			found = append(found, r)
		}
		return nil
	}, query+` ORDER BY `+strings.Join(s.Key, ", ")+fmt.Sprintf(` LIMIT %d`, piece), args...)
	return found, n == piece || len(s.left) > 0, err
}

// Marks are placeholders behind the first n.
func Marks(n, count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf("$%d", n+i+1)
	}
	return strings.Join(list, ", ")
}

// scan reads a row, and finds what is to be erased of it.
func (s *tableSearch) scan(row Row) (*foundRow, error) {
	r := &foundRow{key: make([]any, len(s.Key)), changes: map[string]string{}}
	texts := make([]sql.NullString, 2+len(s.columns)) // record, about, and the columns
	into := make([]any, 0, len(s.Key)+len(texts))
	for i := range r.key {
		into = append(into, &r.key[i])
	}
	for i := range texts {
		into = append(into, &texts[i])
	}
	if err := row.Scan(into...); err != nil {
		return nil, err
	}
	r.record = texts[0].String
	about := s.person.Is(texts[1].String)
	if slices.Contains(s.Persons, s.About) {
		_, left, err := s.without(texts[1].String)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.About, err)
		}
		about = texts[1].String != "" && left == ""
	}
	owned := map[string]bool{} // paths of parties that are the person
	for _, party := range s.Parties {
		column, member, _ := strings.Cut(party[0], ".")
		names := []string{texts[2+slices.Index(s.columns, column)].String}
		if member != "" {
			text := names[0]
			names = nil
			if err := EachText(text, []string{member}, func(text string) { names = append(names, text) }); err != nil {
				return nil, fmt.Errorf("%s: %w", column, err)
			}
		}
		if slices.ContainsFunc(names, func(name string) bool { return s.person.Is(strings.TrimSpace(name)) }) {
			for _, path := range party {
				owned[path] = true
			}
		}
	}
	for i, column := range s.columns {
		if err := s.judge(r, column, texts[2+i].String, about, owned); err != nil {
			return nil, fmt.Errorf("%s: %w", column, err)
		}
	}
	return r, nil
}

// judge finds what is to be erased of a column. about says that the row is about the person, owned which columns
// and members are.
func (s *tableSearch) judge(r *foundRow, column, text string, about bool, owned map[string]bool) error {
	mention := func(field, text string) {
		r.Mentions = append(r.Mentions, Mention{s.Kind, fmt.Sprint(r.key[0]), field, text})
	}
	erase := func(replacement string) {
		r.changes[column] = replacement
		mention(memberName(column), text)
	}
	related := about && slices.Contains(s.Related, column)
	switch {
	case text == "":
		return nil
	case slices.Contains(s.Person, column):
		r.Texts = append(r.Texts, text)
		if s.person.Is(text) {
			erase(s.replacement)
		}
	case slices.Contains(s.Persons, column):
		all, left, err := s.without(text)
		if err != nil {
			return err
		}
		if left == text {
			return nil
		}
		r.changes[column] = left
		for _, reference := range all {
			if s.person.Is(reference) { // what is shown of others does not name them
				r.Texts = append(r.Texts, reference)
				mention(memberName(column), reference)
			}
		}
	case slices.Contains(s.Text, column):
		if ours := api.NounOf(text) != "" && isID(text); !ours && (owned[column] || s.person.In(text)) {
			r.named = true
			erase(s.replacement)
		} else if related && !ours {
			erase(s.replacement)
		}
		if _, named := r.changes[column]; named || s.About != "" {
			r.Texts = append(r.Texts, text)
		}
	case related:
		r.Texts = append(r.Texts, text)
		erase("")
	default:
		members := s.members(column)
		if len(members) == 0 {
			return nil
		}
		var texts []string
		next, err := ReplaceTexts(text, members, func(member, text string) (string, bool) {
			texts = append(texts, text)
			if !owned[column+"."+member] && !s.person.In(text) {
				return "", false
			}
			mention(member, text)
			return s.replacement, true
		})
		if err != nil {
			return err
		}
		if next != text {
			r.named, r.changes[column] = true, next
		}
		if s.About != "" || next != text {
			r.Texts = append(r.Texts, texts...)
		}
	}
	return nil
}

// without removes the person from a list of references. It returns what was in it, too.
func (s *tableSearch) without(text string) (all []string, left string, err error) {
	if all, err = ReadPersons(text); err != nil || !slices.ContainsFunc(all, s.person.Is) {
		return all, text, err
	}
	left, err = WritePersons(slices.DeleteFunc(slices.Clone(all), s.person.Is))
	return all, left, err
}

// WritePersons returns the value of a column of Personal.Persons.
func WritePersons(references []string) (string, error) {
	if len(references) == 0 {
		return "", nil
	}
	text, err := canonical.JSON(references)
	return string(text), err
}

// ReadPersons reads what WritePersons returns.
func ReadPersons(text string) (references []string, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &references)
	}
	return references, err
}

// isID reports whether a text is an id that the service has made.
func isID(text string) bool {
	end := strings.IndexAny(text, "_:") + 1
	return api.IsID(api.Prefix(text[:end]), text)
}

// erase erases what was found in a row, as it is by now: others than changes may write it. It returns
// nil if there is nothing any more.
func (s *tableSearch) erase(ctx context.Context, tx *Tx, r *foundRow) (*foundRow, error) {
	is := `(` + strings.Join(s.Key, ", ") + `) = (` + Marks(0, len(s.Key)) + `)`
	if tx.db.pg != nil { // elsewhere nobody has written it since it was read
		now, err := One(ctx, tx, "a row that names a person", s.scan, `SELECT `+s.read+` FROM `+s.Name+` WHERE `+is+` FOR UPDATE`, r.key...)
		if err != nil || now == nil || len((*now).changes) == 0 {
			return nil, err
		}
		r = *now
	}
	var sets []string
	if s.Also != "" {
		sets = append(sets, s.Also)
	}
	args := slices.Clone(r.key)
	for column, value := range r.changes {
		if slices.Contains(s.Emptied, column) {
			sets = append(sets, column+" = NULL")
			continue
		}
		args = append(args, value)
		sets = append(sets, fmt.Sprintf("%s = $%d", column, len(args)))
	}
	_, err := tx.ExecContext(ctx, `UPDATE `+s.Name+` SET `+strings.Join(sets, ", ")+` WHERE `+is, args...)
	if err != nil {
		return nil, fmt.Errorf("cannot erase a person from %s: %w", s.Name, err)
	}
	return r, nil
}

// Person finds the person of whose references is returns true, where only a hash of it is known: nobody,
// if no row of the tenant names the person.
func (all Tables) Person(ctx context.Context, q Querier, tenantID string, is func(reference string) bool) (found sealer.Person, err error) {
	look := func(reference string) bool { // for more
		if is(reference) {
			found = sealer.NewPerson(reference)
		}
		return found == (sealer.Person{})
	}
	for _, inTexts := range []bool{false, true} { // texts take longer
		for i := range all {
			t := &all[i]
			if t.Personal == nil || t.Personal.Kind == "" {
				continue
			}
			for _, column := range t.Personal.searched() {
				err := Each(ctx, q, "who is named in "+t.Name, Text, func(text string) error {
					err := t.Personal.references(column, text, inTexts, look)
					if err == nil && found != (sealer.Person{}) {
						err = errFound
					}
					return err
				}, `SELECT `+column+` FROM `+t.Name+` WHERE tenant_id = $1 AND `+column+` <> ''`, tenantID)
				if errors.Is(err, errFound) {
					return found, nil
				}
				if err != nil {
					return found, err
				}
			}
		}
	}
	return found, nil
}

// errFound ends a search.
var errFound = errors.New("the person was found")

// references calls take for the references in a column: in texts, or else those that stand alone.
func (p *Personal) references(column, text string, inTexts bool, take func(reference string) bool) error {
	members := p.members(column)
	switch {
	case inTexts && slices.Contains(p.Text, column):
		sealer.References(text, take)
	case inTexts && len(members) > 0:
		return EachText(text, members, func(text string) { sealer.References(text, take) })
	case inTexts:
	case slices.Contains(p.Person, column):
		take(text)
	case slices.Contains(p.Persons, column):
		references, err := ReadPersons(text)
		for _, reference := range references {
			take(reference)
		}
		return err
	}
	return nil
}

// Kinds lists the kinds of rows with personal data.
func (all Tables) Kinds() (kinds []string) {
	for _, t := range all {
		if t.Personal != nil && t.Personal.Kind != "" {
			kinds = append(kinds, t.Personal.Kind)
		}
	}
	return kinds
}

// PublicMembers lists the members of events' data that hold the texts of the columns Public.
func (all Tables) PublicMembers() (members []string) {
	for _, t := range all {
		for _, path := range t.Public {
			_, name, isMember := strings.Cut(path, ".")
			if !isMember {
				name = memberName(path)
			}
			if !slices.Contains(members, name) {
				members = append(members, name)
			}
		}
	}
	return members
}

// InNames reports whether a name that callers choose, in the data of an event (Table.Names), contains the
// reference to a person.
func (all Tables) InNames(data string, person sealer.Person) (found bool, err error) {
	ours := map[string][]string{}
	for _, t := range all {
		for member, names := range t.Names {
			ours[member] = append(ours[member], names...)
		}
	}
	err = EachName(data, slices.Collect(maps.Keys(ours)), func(member, name string) {
		found = found || !slices.Contains(ours[member], name) && person.In(name)
	})
	return found, err
}

// memberName is the name of a column in JSON.
func memberName(column string) string {
	words := strings.Split(column, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}
