package commandline

import (
	"errors"

	"github.com/alecthomas/kong"
)

// Once is an option that is refused when it is given twice, or empty. With two anchors it would
// not be clear which one is trusted; and with a variable for the root key that is not set,
// a weaker anchor would be trusted.
type Once string

// Decode implements kong.MapperValue.
func (o *Once) Decode(ctx *kong.DecodeContext) error {
	var value string
	if err := ctx.Scan.PopValueInto("string", &value); err != nil {
		return err
	}
	switch {
	case *o != "":
		return errors.New("it is given twice, but must be given once")
	case value == "":
		return errors.New("it is empty")
	}
	*o = Once(value)
	return nil
}
