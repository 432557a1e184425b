package command

import (
	"github.com/spf13/cobra"
)

func newCompletion() *cobra.Command {
	cmd := &cobra.Command{
		Use: "completion SHELL", Short: "print a shell's completion script: bash, zsh or fish",
		Args: cobra.ArbitraryArgs, ValidArgs: []string{"bash", "zsh", "fish"},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return misused(cmd, "unexpected argument %q", args[1])
		}
		root, out := cmd.Root(), cmd.OutOrStdout()
		switch shell := append(args, "")[0]; shell {
		case "bash":
			return root.GenBashCompletionV2(out, true)
		case "zsh":
			return root.GenZshCompletion(out)
		case "fish":
			return root.GenFishCompletion(out, true)
		}
		return usagef("such as: edge completion bash > /etc/bash_completion.d/edge", "completion: which shell: bash, zsh or fish?")
	}
	return cmd
}
