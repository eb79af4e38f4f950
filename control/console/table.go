package console

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
)

const (
	// pageRows is how many rows a page has.
	pageRows = "50"
	// maxFileRows bounds the rows of a file that a page sends.
	maxFileRows = 20_000
)

// cell is a value of a table. Of a time, a number or a state the zero value is empty.
type cell struct {
	Text   string
	Href   string    // where it leads; empty for nowhere
	Note   string    // a smaller line below
	State  string    // a state: Text is for people
	Number bool      // it is set to the right
	Time   time.Time // Text is written by shown, in the page's zone
	show   func(zone, time.Time) string
	value  string // of a file, where that is not Text
	actor  string // a key or a member, which shown names
}

func text(s string) cell        { return cell{Text: s} }
func number(s string) cell      { return cell{Text: s, Number: true} }
func tally(n string) cell       { return cell{Text: figure(n), Number: true, value: n + " "} }
func amount(n int64) cell       { return cell{Text: count(n), Number: true, value: fmt.Sprint(n)} }
func moment(t time.Time) cell   { return timed(t, zone.when) }
func minute(t time.Time) cell   { return timed(t, zone.minute) }
func begins(t time.Time) cell   { return timed(t, zone.begin) }
func ends(t time.Time) cell     { return timed(t, zone.end) }
func reference(id string) cell  { return cell{Text: short(id), value: id} }
func state(name string) cell    { return cell{Text: words(name), State: name, value: name} }
func id(s, under string) cell   { return link(short(s), s, under) }
func milliseconds(n int64) cell { return cell{Text: long(n), Number: true, value: fmt.Sprint(n)} }

// priced is an amount as people read it; a file has the decimal of the API.
func priced(decimal, currency string) cell {
	return cell{Text: money(decimal, currency), Number: true, value: decimal + " "}
}

// timed is a cell of a time that show writes.
func timed(t time.Time, show func(zone, time.Time) string) cell {
	return cell{Text: "–", Time: t, show: show, value: stamp(t) + " "}
}

// link is a cell that leads to the page of a record; empty without an id.
func link(shown, id, under string) cell {
	if id == "" {
		return cell{Text: "–", value: " "}
	}
	return cell{Text: shown, Href: Path + under + "/" + url.PathEscape(id), value: id}
}

// Value is the cell in a file.
func (c cell) Value() string {
	if c.value != "" {
		return strings.TrimSpace(c.value)
	}
	return c.Text
}

// Long reports whether the cell needs several lines.
func (c cell) Long() bool { return len(c.Text) > 40 }

// table is a list on a page.
type table struct {
	Columns []string
	Rows    [][]cell
	Next    string // the address of the next page; empty on the last
	First   string // that of the first page; empty on it
	File    string // that of the list as CSV
}

// list reads the records of an operation that lists.
type list[T any] struct {
	op      string
	params  []string
	query   url.Values
	plural  string // the member of the response that has the records
	columns []string
	files   map[string]string // other names of columns in a file, as that of a unit
	row     func(T) []cell
}

// records reads a page of the list; quiet is whether it is one of many that a page shows the first of.
func (l list[T]) records(p *page, cursor, limit string, quiet bool) (records []T, next string, err error) {
	query := url.Values{}
	maps.Copy(query, l.query)
	query.Set("limit", limit)
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	var data map[string]json.RawMessage
	if err := p.do(call{op: l.op, params: l.params, query: query, quiet: quiet}, &data); err != nil {
		return nil, "", err
	}
	if err := json.Unmarshal(data[l.plural], &records); err != nil {
		return nil, "", fmt.Errorf("cannot read the list of %s: %w", l.op, err)
	}
	if following := data["nextCursor"]; following != nil {
		if err := json.Unmarshal(following, &next); err != nil {
			return nil, "", fmt.Errorf("cannot read the cursor of %s: %w", l.op, err)
		}
	}
	return records, next, nil
}

// rows are records as the page shows them.
func (l list[T]) rows(p *page, records []T) (rows [][]cell) {
	for _, one := range records {
		cells := l.row(one)
		for i := range cells {
			cells[i] = p.shown(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// table reads the page that the address names by its cursor.
func (l list[T]) table(p *page, shown url.Values) (table, error) {
	cursor := p.r.URL.Query().Get("cursor")
	records, next, err := l.records(p, cursor, pageRows, false)
	if err != nil {
		return table{}, err
	}
	t := table{Columns: l.columns, Rows: l.rows(p, records), File: addressed(p.Path+".csv", shown)}
	if cursor != "" {
		t.First = addressed(p.Path, shown)
	}
	if next != "" {
		following := url.Values{"cursor": {next}}
		maps.Copy(following, shown)
		t.Next = addressed(p.Path, following)
	}
	return t, nil
}

// all reads the records of the list, up to so many; more is whether there are others.
func (l list[T]) all(p *page, most int) (all []T, more bool, err error) {
	for cursor := ""; ; {
		some, next, err := l.records(p, cursor, fmt.Sprint(checked), cursor != "")
		if err != nil {
			return nil, false, err
		}
		if all, cursor = append(all, some...), next; next == "" || len(all) >= most {
			return all, next != "", nil
		}
	}
}

// csv sends the list as a file for spreadsheets.
func (l list[T]) csv(p *page, name string) error {
	if err := p.missing(l.op); err != nil {
		return err
	}
	all, more, err := l.all(p, maxFileRows)
	if err != nil {
		return err
	}
	l.sheet(p, name, all, more)
	return nil
}

// sheet sends records of the list as a file for spreadsheets, whose name says if there are more.
func (l list[T]) sheet(p *page, name string, all []T, more bool) {
	head := slices.Clone(l.columns)
	for i, column := range head {
		head[i] = cmp.Or(l.files[column], column)
	}
	if more {
		name = fmt.Sprintf("%s-first-%d", name, len(all))
	}
	p.sheet(name, head, l.rows(p, all))
}

// sheet sends rows as a file for spreadsheets.
func (p *page) sheet(name string, head []string, rows [][]cell) {
	var text strings.Builder
	text.WriteString(route.ByteOrderMark)
	to := csv.NewWriter(&text)
	_ = to.Write(head) // writing to memory does not fail
	for _, cells := range rows {
		line := make([]string, len(cells))
		for i, c := range cells {
			if line[i] = c.Value(); !decimals.MatchString(line[i]) { // a number is no formula
				line[i] = route.Inert(line[i])
			}
		}
		_ = to.Write(line)
	}
	to.Flush()
	p.file(name+".csv", "text/csv; charset=utf-8", text.String())
}

// addressed is a path with a query.
func addressed(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// invalid is the error of a field of a form.
func invalid(field, message string) error { return api.InvalidField(field, message) }
