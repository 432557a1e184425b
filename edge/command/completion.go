package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// groups are the verbs that have operations.
func groups() map[string][]operation {
	return map[string][]operation{
		"account":    accountOperations(),
		"deliveries": deliveriesOperations(),
		"key":        keyOperations(),
		"release":    releaseOperations(),
		"token":      tokenOperations(),
	}
}

// shells that completion is written for.
var shells = [...]string{"bash", "zsh", "fish"}

func runCompletion(_ context.Context, args []string, stdout, stderr io.Writer) error {
	const how = "edge completion bash|zsh|fish"
	if len(args) > 0 && slices.Contains(shells[:], args[0]) {
		shell := args[0]
		if err := newFlags("completion", how, stderr).parse(args[1:]); err != nil {
			return err
		}
		_, err := io.WriteString(stdout, completion(shell))
		return err
	}
	if err := newFlags("completion", how, stderr).parse(args); err != nil {
		return err
	}
	return usagef("such as: edge completion bash > /etc/bash_completion.d/edge", "completion: which shell: bash, zsh or fish?")
}

// completion is a shell's script: the verbs, then a verb's operations, then
// their flags.
func completion(shell string) string {
	var names []string
	var cases strings.Builder
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	for _, v := range verbs() {
		var words []string
		for _, op := range groups()[v.name] {
			words = append(words, op.name)
			if shell == "fish" {
				fmt.Fprintf(&cases, "complete -c edge -f -n '__fish_seen_subcommand_from %s' -a %s -d '%s'\n", v.name, op.name, strings.ReplaceAll(op.summary, "'", `\'`))
				continue
			}
			fmt.Fprintf(&cases, "    '%s %s') words='%s' ;;\n", v.name, op.name, strings.Join(flagsOf(v.name, op), " "))
		}
		if v.name == "completion" {
			words = shells[:]
			if shell == "fish" {
				fmt.Fprintf(&cases, "complete -c edge -f -n '__fish_seen_subcommand_from completion' -a '%s'\n", strings.Join(words, " "))
			}
		}
		if len(words) > 0 && shell != "fish" {
			fmt.Fprintf(&cases, "    '%s ') words='%s' ;;\n", v.name, strings.Join(words, " "))
		}
	}
	all := strings.Join(append(names, "help"), " ")
	switch shell {
	case "fish":
		text := "# fish completion of edge\n"
		for _, v := range verbs() {
			text += fmt.Sprintf("complete -c edge -f -n __fish_use_subcommand -a %s -d '%s'\n", v.name, strings.ReplaceAll(v.summary, "'", `\'`))
		}
		return text + cases.String()
	case "zsh":
		return "#compdef edge\nautoload -U +X bashcompinit && bashcompinit\n" + bash(all, cases.String())
	}
	return "# bash completion of edge\n" + bash(all, cases.String())
}

func bash(verbs, cases string) string {
	return `_edge() {
  local words='' first="${COMP_WORDS[1]}" second=''
  if [ "$COMP_CWORD" -gt 2 ]; then second="${COMP_WORDS[2]}"; fi
  if [ "$COMP_CWORD" -le 1 ]; then
    words='` + verbs + `'
  else
    case "$first $second" in
` + cases + `    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _edge edge
`
}

// flagsOf an operation, as they are typed.
func flagsOf(group string, op operation) (all []string) {
	o, _, _, _ := newOperators(group, op, io.Discard)
	o.VisitAll(func(f *flag.Flag) { all = append(all, "--"+f.Name) })
	return all
}
