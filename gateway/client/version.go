package client

import (
	"reflect"
	"runtime/debug"
	"strings"
)

// moduleVersion is the version of the module that this package is in, as the toolchain has put it into
// the program; devel where it knows none, as in tests.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	pkg := reflect.TypeFor[Client]().PkgPath()
	for _, m := range append(info.Deps, &info.Main) {
		if strings.HasPrefix(pkg, m.Path+"/") && strings.HasPrefix(m.Version, "v") {
			return m.Version
		}
	}
	return "devel"
}
