// Package terminal writes texts of other people so that a screen shows them and does nothing else: a label, a
// message of a server or the name of a file must not move the cursor, change the title of a window, turn the
// direction of writing around, or add a line that looks like one of ours.
//
// What is no visible character (Unicode's graphic ones and spaces are) is written as JSON escapes it: \u001b.
package terminal

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s as one line of visible characters.
func Text(s string) string { return string(appendVisible(nil, s, false)) }

// Fprintf is fmt.Fprintf with every argument as Text writes it; the format is as it is.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return io.WriteString(w, Sprintf(format, args...))
}

// Sprintf is fmt.Sprintf with every argument as Text writes it; the format is as it is.
func Sprintf(format string, args ...any) string {
	inert := make([]any, len(args))
	for i, arg := range args {
		inert[i] = visible{arg}
	}
	return fmt.Sprintf(format, inert...)
}

// visible is an argument of Sprintf.
type visible struct{ arg any }

// Format implements fmt.Formatter.
func (v visible) Format(s fmt.State, verb rune) {
	_, _ = io.WriteString(s, Text(fmt.Sprintf(fmt.FormatString(s, verb), v.arg))) // into the memory of fmt
}

// Writer returns a writer to a screen. It escapes everything but visible characters, tabs and line feeds,
// so that JSON means the same afterwards. A character must not be split between two writes. It is safe for
// concurrent use if w is.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

func (w writer) Write(text []byte) (int, error) {
	if _, err := w.to.Write(appendVisible(make([]byte, 0, len(text)), string(text), true)); err != nil {
		return 0, err
	}
	return len(text), nil
}

func appendVisible(dst []byte, s string, lines bool) []byte {
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)): // bytes that are no UTF-8
			dst = fmt.Appendf(dst, `\ufffd`)
		case strconv.IsGraphic(r), lines && (r == '\n' || r == '\t'):
			dst = utf8.AppendRune(dst, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
	}
	return dst
}
