package adapter

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxValue bounds what is decoded at once: what a vendor says of one play. Decoded values
	// can be many times as large as their text.
	maxValue = 64 << 10
	maxPath  = 256 // bytes of a field's name in a message
)

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
// skips all others without decoding them.
func members(object []byte, dst map[string]*jsontext.Value) error {
	dec := decoder(object)
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != jsontext.KindEndObject {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		known := dst[name]
		value, err := next(dec, object)
		switch {
		case err != nil:
			return err
		case known != nil && *known != nil:
			return unreadable("%s is given twice", name)
		case known != nil:
			*known = value
		}
	}
	return nil
}

// decoder reads JSON where it lies. It does not remember the names of an object, of which a
// hostile one has a million.
func decoder(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
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

// decode reads what a document says of the play. Names are exact, and may be given once;
// those that dst lacks are skipped.
func (p *play) decode(value jsontext.Value, dst any) {
	if len(value) > maxValue {
		p.refuse("", "must be at most %d KiB", maxValue>>10)
		return
	}
	err := json.Unmarshal(value, dst)
	var semantic *json.SemanticError
	var syntax *jsontext.SyntacticError
	switch {
	case err == nil:
	case errors.As(err, &semantic):
		p.refuse(path(semantic.JSONPointer), kindMessage(semantic))
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		p.refuse(path(syntax.JSONPointer), "is given twice")
	default: // it is well-formed: only what no decoder expects is left
		p.refuse("", "can't be read")
	}
}

// path is a JSON pointer as JavaScript would write it.
func path(pointer jsontext.Pointer) string {
	var b strings.Builder
	for token := range pointer.Tokens() {
		switch _, err := strconv.Atoi(token); {
		case err == nil:
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	text := b.String()
	return strings.ToValidUTF8(text[:min(len(text), maxPath)], "")
}

// wrongKind is what a type of ours says of a value that it can't hold.
type wrongKind string

func (e wrongKind) Error() string { return string(e) }

func kindMessage(err *json.SemanticError) string {
	var kind wrongKind
	if errors.As(err.Err, &kind) {
		return string(kind)
	}
	if err.GoType == nil {
		return "has a value of the wrong kind"
	}
	switch err.GoType.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Float64:
		return "must be a number"
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "must be a whole number"
	case reflect.Slice:
		return "must be an array"
	case reflect.Struct, reflect.Pointer:
		return "must be an object"
	}
	return "has a value of the wrong kind"
}

// id is a text, of which many vendors write a number. Null is an empty one.
type id string

func (t *id) UnmarshalJSON(value []byte) (err error) {
	switch kind := jsontext.Value(value).Kind(); kind {
	case jsontext.KindNull:
		*t = ""
	case jsontext.KindNumber:
		*t = id(value)
	case jsontext.KindString:
		text, err := jsontext.AppendUnquote(nil, value)
		*t = id(text)
		return err
	default:
		return wrongKind("must be a string or a number")
	}
	return nil
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
		if n == len(names) || len(object) > maxValue {
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
