package commandline

import "github.com/alecthomas/kong"

// Variables decides which flags can also be given by the environment, as MUNIMENT_ and
// the flag's name. The processes of a service (variables:"all") read a variable for every flag
// that is not declared env:"-". Commands that use its engines (variables:"engines") read those
// that say where the engines are. All other commands read only the variables that their flags
// declare: a variable for a server must not set the flag of the same name of another command
// in the same shell.
func Variables() kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		for _, command := range k.Model.Children {
			which := command.Tag.Get("variables")
			if which == "all" {
				continue
			}
			err := kong.Visit(command, func(node kong.Visitable, next kong.Next) error {
				flag, ok := node.(*kong.Flag)
				if ok && len(flag.Envs) == 0 && (which != "engines" || flag.Group == nil) {
					flag.Envs = []string{"-"} // none, to kong.DefaultEnvars
				}
				return next(nil)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
