package upload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gateway/adapter"
)

// play is a JSON value of a vendor's document that is one play, and what its place in it was.
type play struct {
	text   jsontext.Value
	list   string         // of an object's plays; "" where the value is one itself
	beside jsontext.Value // the member that all plays of the object share; nil if there is none
	place  string         // as the service would name it, were the document sent as a whole
}

// values are the plays of a document of JSON values, of any length.
func (u *Uploader) values(f *file, format adapter.Format, from io.Reader) *source {
	query := u.query(f.format)
	s := &source{most: maxRows, mediaType: "application/json", query: query, body: playsBody, placed: playPlaces}
	options := []byte(query.Encode())
	s.rows = func(yield func(row, error) bool) {
		index := int64(0)
		_, beside := format.Lists()
		err := walkPlays(f.path, format, from, func(p play) bool {
			r := row{index: index, text: bytes.Clone(p.text), list: p.list, beside: p.beside, besideName: beside, place: p.place,
				sum: sumOf(options, []byte(p.list), p.beside, p.text)}
			if len(r.text) > mostRow {
				r.text, r.fault = nil, tooLong
			}
			index++
			return yield(r, nil)
		})
		if err != nil && err != errEnough {
			yield(row{}, unreadJSON(err))
		}
	}
	return s
}

// walkPlays calls visit with each play of a document, until it returns false. One object may be of any
// length; of several, and of an array, each is held in memory.
func walkPlays(path string, format adapter.Format, from io.Reader, visit func(play) bool) error {
	count, broken, err := countValues(path)
	if err != nil {
		return err
	}
	d := decoderOf(from)
	lists, _ := format.Lists()
	each := func(place string) error {
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if value.Kind() == jsontext.KindBeginObject && len(lists) > 0 {
			value := value.Clone()
			return walkObject(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(value)), nil }, format, place, visit)
		}
		return visited(visit(play{text: value, place: place}))
	}
	switch {
	case count == 1 && d.PeekKind() == jsontext.KindBeginArray:
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		for i := 0; d.PeekKind() != jsontext.KindEndArray; i++ {
			if err := each("[" + strconv.Itoa(i) + "]"); err != nil {
				return err
			}
		}
	case count == 1 && d.PeekKind() == jsontext.KindBeginObject && len(lists) > 0:
		if err := walkObject(func() (io.ReadCloser, error) { return openContent(path) }, format, "", visit); err != nil {
			return err
		}
	case count == 1:
		if err := each(""); err != nil {
			return err
		}
	default:
		for i := range count {
			if err := each("[" + strconv.Itoa(i) + "]"); err != nil {
				return err
			}
		}
	}
	return broken
}

func visited(more bool) error {
	if !more {
		return errEnough
	}
	return nil
}

// countValues says how many values stand in a file one after another, and why there are no more: a log may
// end in the middle of one. A broken document is not sent at all: the service would refuse all of it.
func countValues(path string) (count int, broken, err error) {
	content, err := openContent(path)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	for d := decoderOf(content); ; count++ {
		var err error
		if kind := d.PeekKind(); kind == jsontext.KindInvalid {
			_, err = d.ReadToken()
		} else {
			err = d.SkipValue()
		}
		switch {
		case err == nil:
		case err == io.EOF && count > 0:
			return count, nil, nil
		case err == io.EOF:
			return 0, nil, errors.New("it is empty")
		case count > 0:
			return count, err, nil
		default:
			return 0, nil, err
		}
	}
}

// walkObject visits the plays of an object: of the first of the format's lists that it has, once and as an
// array, else the object itself, of which the service says what is wrong. What the plays share may stand
// behind them.
func walkObject(open func() (io.ReadCloser, error), format adapter.Format, place string, visit func(play) bool) error {
	lists, beside := format.Lists()
	shared, list := jsontext.Value(nil), ""
	seen := map[string]int{}
	err := membersOf(open, func(name string, d *jsontext.Decoder) (err error) {
		seen[name]++
		if slices.Contains(lists, name) && list == "" && d.PeekKind() == jsontext.KindBeginArray {
			list = name
		}
		if name != beside {
			return d.SkipValue()
		}
		shared, err = d.ReadValue()
		shared = bytes.Clone(shared)
		return err
	})
	if err != nil {
		return err
	}
	if len(shared) > mostShared {
		return fmt.Errorf("its %s is longer than %d bytes", beside, mostShared)
	}
	if list == "" || seen[list] > 1 || seen[beside] > 1 {
		whole, err := open()
		if err != nil {
			return err
		}
		value, err := decoderOf(whole).ReadValue()
		if err = errors.Join(err, whole.Close()); err != nil {
			return err
		}
		return visited(visit(play{text: value, place: place}))
	}
	in := list
	if place != "" {
		in = place + "." + list
	}
	return membersOf(open, func(name string, d *jsontext.Decoder) error {
		if name != list {
			return d.SkipValue()
		}
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		for i := 0; d.PeekKind() != jsontext.KindEndArray; i++ {
			value, err := d.ReadValue()
			if err == nil {
				err = visited(visit(play{text: value, list: list, beside: shared, place: in + "[" + strconv.Itoa(i) + "]"}))
			}
			if err != nil {
				return err
			}
		}
		_, err := d.ReadToken()
		return err
	})
}

// mostShared bounds what is repeated beside the plays of each batch.
const mostShared = 1 << 10

// membersOf calls read at the value of each member of an object, which it reads.
func membersOf(open func() (io.ReadCloser, error), read func(name string, d *jsontext.Decoder) error) (err error) {
	from, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	d := decoderOf(from)
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := read(name.String(), d); err != nil {
			return err
		}
	}
	return nil
}

// decoderOf reads JSON of which most is skipped.
func decoderOf(from io.Reader) *jsontext.Decoder {
	return jsontext.NewDecoder(from, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// playsBody writes an array of values, in which plays of one list that share one member stand together.
func playsBody(dst []byte, rows []row) []byte {
	dst = append(dst, '[')
	for i := range rows {
		r := &rows[i]
		switch {
		case r.list == "":
			dst = append(comma(dst, i > 0), r.text...)
			continue
		case i > 0 && r.shares(&rows[i-1]):
			dst = append(dst, ',')
		default:
			dst = append(comma(dst, i > 0), '{')
			if r.beside != nil {
				dst = append(append(append(dst, strconv.Quote(r.besideName)...), ':'), r.beside...)
				dst = append(dst, ',')
			}
			dst = append(append(dst, strconv.Quote(r.list)...), ":["...)
		}
		if dst = append(dst, r.text...); i+1 == len(rows) || !rows[i+1].shares(r) {
			dst = append(dst, "]}"...)
		}
	}
	return append(dst, ']')
}

func comma(dst []byte, needed bool) []byte {
	if needed {
		return append(dst, ',')
	}
	return dst
}

// shares says whether a play stands in one object with another.
func (r *row) shares(other *row) bool {
	return r.list != "" && r.list == other.list && bytes.Equal(r.beside, other.beside)
}

// playPlaces names the place of the file in place of that of the body.
func playPlaces(rows []row, i int, text json.RawMessage) json.RawMessage {
	value, inList := -1, -1
	for k := range rows[:i+1] {
		if k > 0 && rows[k].shares(&rows[k-1]) {
			inList++
		} else {
			value, inList = value+1, 0
		}
	}
	place := fmt.Sprintf(`"[%d]`, value)
	r := &rows[i]
	if r.list != "" {
		place += fmt.Sprintf(".%s[%d]", r.list, inList)
	}
	if r.place == "" {
		text = bytes.ReplaceAll(text, []byte(place+"."), []byte(`"`))
	}
	return bytes.ReplaceAll(text, []byte(place), []byte(`"`+r.place))
}
