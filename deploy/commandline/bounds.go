// Package commandline is what the command line of muniment does beyond kong, which parses it: a number, an address, a
// URL or a time that a command could not work with is refused before the command runs, in words that name the flag and an
// example; the environment gives the flags of servers, and of no other command; shells complete commands, flags
// and their values.
package commandline

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
)

// Bounds has every flag that declares its least value, and perhaps its most, refuse others, and names an
// example: the one that it declares, or else its default. One with zero takes 0 besides. A flag that declares a form takes nothing else; form.go
// has the forms.
//
//	Concurrency int    `default:"4" least:"1" most:"64"`
//	Listen      string `default:"127.0.0.1:8080" address:""`
func Bounds() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		return kong.Visit(k.Model.Node, func(node kong.Visitable, next kong.Next) error {
			flag, ok := node.(*kong.Flag)
			switch {
			case !ok:
			case flag.Tag.Has("least"):
				flag.Mapper = bounded{flag.Mapper, flag.Tag}
			default:
				for name, f := range forms {
					if flag.Tag.Has(name) {
						flag.Mapper = formed{flag.Mapper, f, flag.Tag, flag.Required || flag.HasDefault}
					}
				}
			}
			return next(nil)
		})
	})
}

// bounded is the mapper of a number or a duration with bounds.
type bounded struct {
	kong.Mapper
	tag *kong.Tag
}

// Decode implements kong.Mapper. Kong puts the name of the flag before the error.
func (b bounded) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	given := ctx.Scan.Peek().Value
	if err := b.Mapper.Decode(ctx, target); err != nil {
		return fmt.Errorf("%w; it must be %s", err, b)
	}
	least, err := limitOf(b.tag.Get("least"), target.Type())
	if err != nil {
		return err
	}
	most := int64(math.MaxInt64)
	if b.tag.Has("most") {
		if most, err = limitOf(b.tag.Get("most"), target.Type()); err != nil {
			return err
		}
	}
	within := false
	if target.CanFloat() {
		within = target.Float() >= float64(least) && target.Float() <= float64(most)
	} else {
		within = target.Int() >= least && target.Int() <= most
	}
	if !within && !(b.tag.Has("zero") && target.IsZero()) {
		return fmt.Errorf("%v is out of range; it must be %s", given, b)
	}
	return nil
}

// String says what the flag takes.
func (b bounded) String() string {
	text := "at least " + b.tag.Get("least")
	if most := b.tag.Get("most"); most != "" {
		text = fmt.Sprintf("from %s to %s", b.tag.Get("least"), most)
	}
	if b.tag.Has("zero") {
		text = "0, or " + text
	}
	return text + ", for example " + exampleOf(b.tag)
}

// exampleOf is what a flag declares as its example, or else its default.
func exampleOf(tag *kong.Tag) string { return cmp.Or(tag.Get("example"), tag.Default) }

// limitOf reads a limit of a flag: whole numbers and durations have one.
func limitOf(text string, of reflect.Type) (int64, error) {
	if of == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		return int64(d), err
	}
	return strconv.ParseInt(text, 10, 64)
}
