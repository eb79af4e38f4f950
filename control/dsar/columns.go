package dsar

import (
	"fmt"
	"reflect"
	"strings"

	"muniment.example/control/store"
	"muniment.example/control/table"
	"muniment.example/sealer/canonical"
)

// column is a member of a section's rows, in the order of its Go type. A document is a JSON text; so is
// each list and structure. A text with the tag decimal, as decimal:"38,6", is a decimal of so many digits,
// of which so many are fractional.
type column struct {
	table.Column
	index []int
}

// columnsOf returns the columns of a row's type: its JSON members.
func columnsOf(row any) []column { return columnsIn(reflect.TypeOf(row), nil) }

func columnsIn(t reflect.Type, at []int) (all []column) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(append([]int{}, at...), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			all = append(all, columnsIn(f.Type, index)...)
		case !f.IsExported() || name == "" || name == "-" || f.Tag.Get("column") == "-": // the last of what only responses have
		default:
			c := column{table.Column{Name: name, Type: typeOf(f.Type), Optional: true}, index}
			if digits := f.Tag.Get("decimal"); digits != "" {
				c.Type = table.Decimal
				if _, err := fmt.Sscanf(digits, "%d,%d", &c.Precision, &c.Scale); err != nil {
					panic(fmt.Sprintf("the tag decimal of %s: %v", name, err))
				}
			}
			all = append(all, c)
		}
	}
	return all
}

var instant = reflect.TypeFor[store.Instant]()

func typeOf(t reflect.Type) table.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == instant {
		return table.Moment
	}
	switch t.Kind() {
	case reflect.String:
		return table.Text
	case reflect.Bool:
		return table.Boolean
	case reflect.Int, reflect.Int64:
		return table.Integer
	case reflect.Float64:
		return table.Number
	}
	return table.Document
}

// cell returns the value of a column in a row, as table.Type says, or nil.
func (c *column) cell(row reflect.Value) (any, error) {
	v := row.FieldByIndex(c.index)
	if v.Type() == instant {
		at := v.Interface().(store.Instant)
		if at.IsZero() {
			return nil, nil
		}
		return at.Time, nil
	}
	if v.Kind() == reflect.Pointer && c.Type != table.Document {
		if v.IsNil() {
			return nil, nil
		}
		v = v.Elem()
	}
	switch c.Type {
	case table.Text, table.Decimal:
		return v.String(), nil
	case table.Integer:
		return v.Int(), nil
	case table.Number:
		return v.Float(), nil
	case table.Boolean:
		return v.Bool(), nil
	}
	switch k := v.Kind(); {
	case (k == reflect.Pointer || k == reflect.Slice || k == reflect.Map) && v.IsNil():
		return nil, nil
	case v.Type() == reflect.TypeFor[canonicalText]():
		return string(v.Bytes()), nil
	}
	written, err := canonical.JSON(v.Interface())
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", c.Name, err)
	}
	return string(written), nil
}
