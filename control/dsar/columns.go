package dsar

import (
	"fmt"
	"reflect"
	"strings"

	"muniment.example/control/store"
	"muniment.example/sealer"
)

// sort is the type of a column. A document is a JSON text; so is each list and structure.
type sort int

const (
	text sort = iota
	integer
	number
	boolean
	document
)

// column is a member of a section's rows, in the order of its Go type.
type column struct {
	name  string
	sort  sort
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
		case !f.IsExported() || name == "" || name == "-":
		default:
			all = append(all, column{name, sortOf(f.Type), index})
		}
	}
	return all
}

var instant = reflect.TypeFor[store.Instant]()

func sortOf(t reflect.Type) sort {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == instant {
		return text
	}
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Bool:
		return boolean
	case reflect.Int, reflect.Int64:
		return integer
	case reflect.Float64:
		return number
	}
	return document
}

// cell returns the value of a column in a row: a string, an int64, a float64, a bool, or nil.
func (c *column) cell(row reflect.Value) (any, error) {
	v := row.FieldByIndex(c.index)
	if v.Type() == instant {
		at := v.Interface().(store.Instant)
		if at.IsZero() {
			return nil, nil
		}
		return at.String(), nil
	}
	if v.Kind() == reflect.Pointer && c.sort != document {
		if v.IsNil() {
			return nil, nil
		}
		v = v.Elem()
	}
	switch c.sort {
	case text:
		return v.String(), nil
	case integer:
		return v.Int(), nil
	case number:
		return v.Float(), nil
	case boolean:
		return v.Bool(), nil
	}
	switch k := v.Kind(); {
	case (k == reflect.Pointer || k == reflect.Slice || k == reflect.Map) && v.IsNil():
		return nil, nil
	case v.Type() == reflect.TypeFor[canonical]():
		return string(v.Bytes()), nil
	}
	written, err := sealer.Canonical(v.Interface())
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", c.name, err)
	}
	return string(written), nil
}
