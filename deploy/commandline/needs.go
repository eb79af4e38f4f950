package commandline

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Needs has a command refuse a flag without the one that it declares to need, by the ends of both names: these
// of one listener have the same prefix.
//
//	Cert string `needs:"cert=key"`
//	Key  string `needs:"key=cert"`
func Needs() kong.Option {
	return kong.WithAfterApply(func(ctx *kong.Context) error {
		given := map[string]bool{}
		for _, flag := range ctx.Flags() {
			given[flag.Name] = !flag.Target.IsZero()
		}
		for _, flag := range ctx.Flags() {
			own, needed, declared := strings.Cut(flag.Tag.Get("needs"), "=")
			other := strings.TrimSuffix(flag.Name, own) + needed
			if declared && given[flag.Name] && !given[other] {
				return fmt.Errorf("--%s needs --%s, for example --%s %s.pem --%s %s.pem", flag.Name, other, flag.Name, own, other, needed)
			}
		}
		return nil
	})
}
