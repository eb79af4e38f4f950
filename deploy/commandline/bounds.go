// Package commandline is what the command line of muniment does beyond kong, which parses it: a number or an address
// that a command could not work with is refused before the command runs, in words that name the flag and an
// example; the environment gives the flags of servers, and of no other command; shells complete commands, flags
// and their values.
package commandline

import (
	"fmt"
	"math"
	"net"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
)

// Bounds has every flag that declares its least value, and perhaps its most, refuse others, and names an
// example: its default, or the one that it declares. A flag that is declared an address takes nothing else.
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
			case flag.Tag.Has("address"):
				flag.Mapper = hostPort{flag.Mapper}
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
	if !within {
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
	example := b.tag.Get("example")
	if example == "" {
		example = b.tag.Default
	}
	return text + ", for example " + example
}

// hostPort is the mapper of an address of this machine or another.
type hostPort struct{ kong.Mapper }

// Decode implements kong.Mapper.
func (m hostPort) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	if err := m.Mapper.Decode(ctx, target); err != nil {
		return err
	}
	given := target.String()
	_, port, err := net.SplitHostPort(given)
	if _, notPort := strconv.ParseUint(port, 10, 16); err != nil || notPort != nil {
		return fmt.Errorf("%q is no address; it must be HOST:PORT, without http://, for example 127.0.0.1:9090", given)
	}
	return nil
}

// limitOf reads a limit of a flag: whole numbers and durations have one.
func limitOf(text string, of reflect.Type) (int64, error) {
	if of == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		return int64(d), err
	}
	return strconv.ParseInt(text, 10, 64)
}
