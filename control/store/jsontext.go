package store

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ReplaceTexts calls replace for each text in some members of a JSON text, at any depth, and returns
// it with the replacements. Everything else stays, byte for byte. The empty text has no members. The
// member * stands for all.
func ReplaceTexts(text string, members []string, replace func(member, text string) (string, bool)) (string, error) {
	return walk(text, members, func(string, string) {}, replace)
}

// walk is ReplaceTexts, and calls named for each name of a member within those.
func walk(text string, members []string, named func(member, name string), replace func(member, text string) (string, bool)) (string, error) {
	if text == "" {
		return "", nil
	}
	dec := jsontext.NewDecoder(strings.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var next []byte
	copied := 0
	anyMember := slices.Contains(members, "*")
	within, member := 0, "" // the depth of the object with the member, and its name; 0: in none
	for {
		kind := dec.PeekKind()
		if kind != '"' {
			_, err := dec.ReadToken()
			if errors.Is(err, io.EOF) {
				return string(append(next, text[copied:]...)), nil
			}
			if err != nil {
				return "", fmt.Errorf("cannot read JSON: %w", err)
			}
			if dec.StackDepth() < within {
				within = 0
			}
			continue
		}
		depth := dec.StackDepth()
		in, length := dec.StackIndex(depth)
		raw, err := dec.ReadValue()
		if err != nil {
			return "", fmt.Errorf("cannot read JSON: %w", err)
		}
		end := int(dec.InputOffset())
		start := end - len(raw)
		content, _ := jsontext.AppendUnquote(nil, raw) // the only errors are invalid characters, which it replaces
		if in == '{' && length%2 == 0 {
			if within == 0 || depth <= within {
				within, member = 0, ""
				if anyMember || slices.Contains(members, string(content)) {
					within, member = depth, string(content)
				}
			} else {
				named(member, string(content))
			}
			continue
		}
		if within == 0 {
			continue
		}
		if replacement, replaced := replace(member, string(content)); replaced {
			next = append(next, text[copied:start]...)
			if next, err = jsontext.AppendQuote(next, replacement); err != nil {
				return "", err
			}
			copied = end
		}
	}
}

// EachText calls take for each text in some members of a JSON text, at any depth.
func EachText(text string, members []string, take func(text string)) error {
	_, err := ReplaceTexts(text, members, func(_, text string) (string, bool) {
		take(text)
		return "", false
	})
	return err
}

// EachName calls take for the name of each member within some members of a JSON text, at any depth.
func EachName(text string, members []string, take func(member, name string)) error {
	_, err := walk(text, members, take, func(string, string) (string, bool) { return "", false })
	return err
}
