package commandline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion prints a script for a shell to source. The scripts call the hidden command complete,
// so a script of one version completes the commands of another.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: ${enum}."`
}

var completionScripts = map[string]string{
	"bash": `# Completion of muniment for bash: source it, or put it into
# /usr/share/bash-completion/completions as muniment.
_muniment() {
	local IFS=$'\n'
	COMPREPLY=($("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
}
complete -o bashdefault -o default -F _muniment muniment
`,
	"zsh": `#compdef muniment
# Completion of muniment for zsh: source it, or put it into a folder of fpath as _muniment.
_muniment() {
	local -a found
	found=(${(f)"$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
	if (( $#found )); then
		found=("${(@)found/$'\t'/:}")
		_describe -V muniment found
	else
		compset -P '--*='
		_files
	fi
}
if [[ "$funcstack[1]" = _muniment ]]; then
	_muniment "$@"
else
	compdef _muniment muniment
fi
`,
	"fish": `# Completion of muniment for fish: source it, or put it into
# ~/.config/fish/completions as muniment.fish.
function __muniment_complete
	set -l before (commandline -opc)
	set -l current (commandline -ct)
	set -l found ($before[1] complete -- $before[2..] "$current" 2>/dev/null)
	if set -q found[1]
		string join \n -- $found
	else
		__fish_complete_path "$current"
	end
end
complete -c muniment -f -a '(__muniment_complete)'
`,
}

// Run prints the script.
func (c *Completion) Run(out io.Writer) error {
	_, err := io.WriteString(out, completionScripts[c.Shell])
	return err
}

// Complete is the hidden command that is called by these scripts.
type Complete struct {
	Words []string `arg:"" optional:"" help:"The words of the command line behind the program's name; the last one, which may be empty, is completed."`
}

// Run prints the words that fit, a line each, with their help behind a tab. It prints none where a
// file or any other text may follow: the shell then completes names of files.
func (c *Complete) Run(out io.Writer, app *kong.Kong) error {
	for _, w := range complete(app.Model.Node, c.Words) {
		if _, err := fmt.Fprintf(out, "%s\t%s\n", w.text, w.help); err != nil {
			return err
		}
	}
	return nil
}

// candidate is a word that fits at the cursor.
type candidate struct{ text, help string }

// complete returns the words that the last word, which may be empty, can become.
func complete(node *kong.Node, words []string) (found []candidate) {
	if len(words) == 0 {
		words = []string{""}
	}
	before, current := words[:len(words)-1], words[len(words)-1]
	var valueOf *kong.Flag // a flag whose value is next
	for _, word := range before {
		switch {
		case word == "=": // bash splits --flag=value into three words
		case valueOf != nil:
			valueOf = nil
		case strings.HasPrefix(word, "--"):
			name, _, valued := strings.Cut(word, "=")
			if f := flagOf(node, name); f != nil && !valued && !f.IsBool() {
				valueOf = f
			}
		default:
			for _, child := range node.Children {
				if child.Name == word {
					node = child
					break
				}
			}
		}
	}
	name, _, valued := strings.Cut(current, "=")
	switch {
	case valueOf != nil:
		found = values(valueOf.Value, "")
		if current == "=" {
			return found
		}
	case valued && strings.HasPrefix(name, "--"):
		if f := flagOf(node, name); f != nil {
			found = values(f.Value, name+"=")
		}
	case strings.HasPrefix(current, "-"):
		found = flags(node)
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				found = append(found, candidate{child.Name, child.Help})
			}
		}
		for _, p := range node.Positional {
			found = append(found, values(p, "")...)
		}
	}
	return slices.DeleteFunc(found, func(w candidate) bool { return !strings.HasPrefix(w.text, current) })
}

// flagOf returns the flag of a command by its name with dashes, or nil.
func flagOf(node *kong.Node, name string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if "--"+f.Name == name {
				return f
			}
		}
	}
	return nil
}

// flags returns those of a command.
func flags(node *kong.Node) (list []candidate) {
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			list = append(list, candidate{"--" + f.Name, f.Help})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.text, b.text) })
	return list
}

// values returns those of an enumeration, and none of any other value.
func values(v *kong.Value, prefix string) (list []candidate) {
	if v.Enum != "" {
		for value := range v.EnumMap() {
			list = append(list, candidate{prefix + value, ""})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.text, b.text) })
	return list
}
