package adapter

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxValue bounds what is decoded at once: a text, or a row's telemetry.
const maxValue = 64 << 10

// each reads the values of a document, which must be objects. What is wrong with one of several
// is that one's fault alone.
func (d *document) each(read func(place string, value jsontext.Value) error) error {
	values, err := d.values()
	if err != nil {
		return err
	}
	for place, value := range values {
		err := error(unreadable("must be an object"))
		if value.Kind() == jsontext.KindBeginObject {
			err = read(place, value)
		} else if place == "" {
			err = unreadable("the document must be an object, or an array of objects")
		}
		if whole, ok := err.(*DocumentError); ok && place != "" {
			p := d.play(place)
			p.refuse("", whole.Message)
			d.emit(p)
			err = nil
		}
		if err != nil || d.stopped {
			return err
		}
	}
	return nil
}

// values are the JSON values of a document with their places: the elements of an array, or
// what stands one after another, as lines of NDJSON do.
func (d *document) values() (iter.Seq2[string, jsontext.Value], error) {
	count, array := 0, false
	for dec := decoder(d.body); ; count++ {
		kind := dec.PeekKind()
		if _, err := dec.ReadValue(); err == io.EOF {
			break
		} else if err != nil {
			return nil, unreadable("invalid JSON at byte %d", faultAt(dec, err))
		}
		array = array || kind == jsontext.KindBeginArray
	}
	switch {
	case count == 0:
		return nil, unreadable("the document is empty")
	case array && count > 1:
		return nil, unreadable("the document must be one array, or values one after another")
	case array:
		return elements("", d.body), nil
	}
	return func(yield func(string, jsontext.Value) bool) {
		dec, place := decoder(d.body), ""
		for i := range count {
			if count > 1 {
				place = indexed("", i)
			}
			if value, err := next(dec, d.body); err != nil || !yield(place, value) {
				return
			}
		}
	}, nil
}

// elements are those of an array of well-formed JSON.
func elements(place string, array []byte) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		dec := decoder(array)
		if _, err := dec.ReadToken(); err != nil {
			return
		}
		for i := 0; dec.PeekKind() != jsontext.KindEndArray; i++ {
			if value, err := next(dec, array); err != nil || !yield(indexed(place, i), value) {
				return
			}
		}
	}
}

// members reads those members of an object of well-formed JSON that dst has a place for, and
// skips all others.
func members(object jsontext.Value, dst map[string]*jsontext.Value) error {
	for name, value := range fields(object) {
		switch known := dst[string(name)]; {
		case known != nil && *known != nil:
			return unreadable("%s is given twice", name)
		case known != nil:
			*known = value
		}
	}
	return nil
}

// fields are the members of an object of well-formed JSON, as they stand there. A name is valid
// until the next one.
func fields(object jsontext.Value) iter.Seq2[[]byte, jsontext.Value] {
	return func(yield func([]byte, jsontext.Value) bool) {
		var unquoted []byte
		dec := decoder(object)
		if _, err := dec.ReadToken(); err != nil {
			return
		}
		for dec.PeekKind() != jsontext.KindEndObject {
			name, err := next(dec, object)
			if err != nil {
				return
			}
			if bytes.IndexByte(name, '\\') < 0 {
				name = name[1 : len(name)-1]
			} else { // broken text makes another name, which is none of ours
				unquoted, _ = jsontext.AppendUnquote(unquoted[:0], name)
				name = unquoted
			}
			value, err := next(dec, object)
			if err != nil || !yield(name, value) {
				return
			}
		}
	}
}

// lenient reads JSON of which most is skipped: text that is not UTF-8 and names that are given twice
// are faults of what is used alone. The names of an object, of which a hostile one has a million, are
// not remembered.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// decoder reads JSON where it lies.
func decoder(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), lenient...)
}

// next reads the next value, as part of the text that the decoder reads.
func next(dec *jsontext.Decoder, text []byte) (jsontext.Value, error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := dec.InputOffset()
	return text[end-int64(len(raw)) : end], nil
}

func faultAt(dec *jsontext.Decoder, err error) int64 {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return syntax.ByteOffset
	}
	return dec.InputOffset()
}

func indexed(place string, i int) string { return place + "[" + strconv.Itoa(i) + "]" }

// decode reads what a document says of the play: the members that dst, a pointer to a struct, has.
// They are given once, in UTF-8, and of the kind that the document's format gives them. All others are
// skipped, whatever they hold; so are those that only an idType uses, by their tag, which the request does
// not name.
func (p *play) decode(value jsontext.Value, dst any) { p.read("", value, reflect.ValueOf(dst).Elem()) }

// excerpt is what is said of the play in members that are used. Numbers and times are kept as they are; any
// other value is null, as broken documents have there what may be anybody's.
func (l *listed) excerpt(f *Format) []byte {
	if l.value.Kind() != jsontext.KindBeginObject {
		return nil
	}
	said := make(map[string]*jsontext.Value)
	for _, m := range membersOf(f.play) {
		said[m.name] = new(jsontext.Value)
	}
	_ = members(l.value, said) // of a member that is given twice the first one counts here
	if of := jsontext.Value(strconv.Quote(string(l.of))); l.of != "" && said[f.beside] == nil {
		said[f.beside] = &of
	}
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(said)) {
		value := *said[name]
		if len(value) == 0 {
			continue
		}
		if digits := strings.Trim(string(value), `"0123456789TZeE:.,+-/ `); digits != "" || len(value) > maxExcerpt {
			value = jsontext.Value("null")
		}
		text = append(append(append(text, `,"`...), name...), `":`...)
		text = append(text, value...)
	}
	if len(text) == 0 {
		return nil
	}
	text[0] = '{'
	return append(text, '}')
}

// maxExcerpt bounds a value of an excerpt, in bytes: no number and no time is longer.
const maxExcerpt = 64

func (p *play) read(at string, value jsontext.Value, dst reflect.Value) {
	switch t := dst.Type(); {
	case t == reflect.TypeFor[jsontext.Value]():
		dst.SetBytes(value)
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && value.Kind() != jsontext.KindNull:
		dst.Set(reflect.New(t.Elem()))
		p.read(at, value, dst.Elem())
	case t.Kind() == reflect.Struct && value.Kind() == jsontext.KindBeginObject:
		p.readMembers(at, value, dst)
	case t.Kind() == reflect.Struct && value.Kind() != jsontext.KindNull:
		p.refuse(at, "must be an object")
	case t.Kind() == reflect.Struct:
	case len(value) > maxValue:
		p.refuse(at, "must be at most %d KiB", maxValue>>10)
	default:
		p.readLeaf(at, value, dst)
	}
}

func (p *play) readMembers(at string, object jsontext.Value, dst reflect.Value) {
	used := membersOf(dst.Type())
	var seen uint64
	for name, value := range fields(object) {
		i := slices.IndexFunc(used, func(m usedMember) bool { return m.name == string(name) })
		if i < 0 || used[i].idTypes != nil && !slices.ContainsFunc(used[i].idTypes, func(id string) bool { return slices.Contains(p.ids, id) }) {
			continue
		}
		place := member(at, used[i].name)
		if seen&(1<<i) != 0 {
			p.refuse(place, "is given twice")
		}
		seen |= 1 << i
		p.read(place, value, dst.Field(i))
	}
}

// usedMember is a member of an object that a struct has a field for, in its place.
type usedMember struct {
	name    string
	idTypes []string // with which it is used; nil: with any
}

var usedMembers sync.Map // lists of them by the structs' types

func membersOf(t reflect.Type) []usedMember {
	if known, ok := usedMembers.Load(t); ok {
		return known.([]usedMember)
	}
	var used []usedMember
	for field := range t.Fields() {
		m := usedMember{name: field.Tag.Get("json")}
		if of, ok := field.Tag.Lookup("idType"); ok {
			m.idTypes = strings.Split(of, ",")
		}
		used = append(used, m)
	}
	usedMembers.Store(t, used)
	return used
}

func (p *play) readLeaf(at string, value jsontext.Value, dst reflect.Value) {
	err := json.Unmarshal(value, dst.Addr().Interface())
	if err == nil {
		return
	}
	if kind, ok := errors.AsType[wrongKind](err); ok {
		p.refuse(at, string(kind))
	} else if _, ok := errors.AsType[*jsontext.SyntacticError](err); ok { // it is well-formed
		p.refuse(at, msgNotUTF8)
	} else {
		p.refuse(at, map[reflect.Kind]string{reflect.String: "must be a string", reflect.Pointer: "must be a number"}[dst.Kind()])
	}
}

const msgNotUTF8 = "must be text in UTF-8"

// wrongKind is what a type of ours says of a value that it can't hold.
type wrongKind string

func (e wrongKind) Error() string { return string(e) }

// id is a text, of which many vendors write a number. Null is an empty one.
type id string

func (t *id) UnmarshalJSON(value []byte) error {
	switch kind := jsontext.Value(value).Kind(); kind {
	case jsontext.KindNull:
		*t = ""
	case jsontext.KindNumber:
		*t = id(value)
	case jsontext.KindString:
		text, _ := jsontext.AppendUnquote(nil, value) // it is valid
		*t = id(text)
	default:
		return wrongKind("must be a string or a number")
	}
	return nil
}

// wholeID is an id that is a whole number by its format. A spreadsheet makes 4456.0 of 4456.
type wholeID string

func (t *wholeID) UnmarshalJSON(value []byte) error {
	if err := (*id)(t).UnmarshalJSON(value); err != nil {
		return err
	}
	*t = wholeID(id(*t).whole())
	return nil
}

func (t id) whole() id {
	if whole, zeros, ok := strings.Cut(string(t), "."); ok && whole != "" && strings.Trim(whole, "0123456789") == "" && strings.Trim(zeros, "0") == "" {
		return id(whole)
	}
	return t
}

// decimal is a number, of which some vendors write a string. Null is an empty one.
type decimal string

func (t *decimal) UnmarshalJSON(value []byte) error {
	if (*id)(t).UnmarshalJSON(value) != nil {
		return wrongKind("must be a number")
	}
	return nil
}

// member is the place of an object's member.
func member(place, name string) string {
	if place == "" {
		return name
	}
	return place + "." + name
}

// keyed makes an object of an array whose elements have names by their order. What stands
// behind them is left out.
func (p *play) keyed(array jsontext.Value, names []string) jsontext.Value {
	object := []byte{'{'}
	n := 0
	for _, value := range elements("", array) {
		if n == len(names) {
			break
		}
		if n > 0 {
			object = append(object, ',')
		}
		object = append(append(append(object, '"'), names[n]...), `":`...)
		object = append(object, value...)
		n++
	}
	if n < len(names) {
		p.refuse("", "must have %d values: %s", len(names), strings.Join(names, ", "))
	}
	return append(object, '}')
}
