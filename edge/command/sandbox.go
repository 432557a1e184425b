package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"partneredge/edge/hint"
	"partneredge/edge/sandbox"
)

func newSandbox() *cobra.Command {
	c := sandbox.Config{Stdin: os.Stdin}
	cmd := newCommand("sandbox [--control [ADDR]] [--forward URL]", "run the whole partner API with data in memory, for a partner's tests", func(cmd *cobra.Command, args []string) error {
		c.Stdout, c.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		if err := completeSandbox(cmd, &c, args); err != nil {
			return err
		}
		return sandbox.Run(cmd.Context(), c)
	})
	cmd.Args = cobra.ArbitraryArgs // completeSandbox judges them
	flags := cmd.Flags()
	flags.StringVar(&c.Listen, "listen", "127.0.0.1:0", "`ADDR` (address:port) of the partner API; port 0: any free one")
	flags.StringVar(&c.Program, "program", "", "`FILE` of the sandbox program (default: sandbox.wasm in ../lib/edge, or beside this one)")
	flags.StringVar(&c.Cache, "cache", "", "`DIR` of compiled code (default: a folder of the user's cache)")
	flags.StringVar(&c.Control, "control", "", "take commands (accounts, keys, data, the clock) over HTTP on `ADDR`, without a host on loopback; without ADDR from standard input")
	flags.Lookup("control").NoOptDefVal = sandbox.OnStdin
	flags.StringVar(&c.Forward, "forward", "", "`URL` that events are posted to, signed, in place of the subscriptions' own")
	flags.DurationSliceVar(&c.Retries, "retries", nil, "`DURATIONS` by comma between the tries of --forward (default 5s,30s,180s, as the service's)")
	flags.Lookup("retries").DefValue = "" // pflag would add its own: []
	return cmd
}

// completeSandbox validates the flags, and sets the paths that they leave open.
func completeSandbox(cmd *cobra.Command, c *sandbox.Config, args []string) error {
	if c.Control == sandbox.OnStdin && len(args) > 0 { // --control takes its address with a space too
		c.Control, args = args[0], args[1:]
	}
	if c.Forward != "" && c.Control == "" {
		c.Control = "127.0.0.1:0" // without commands nothing happens
	}
	switch {
	case len(args) > 0:
		return misused(cmd, "unexpected argument %q", args[0])
	case c.Forward != "" && !isHTTP(c.Forward):
		return misused(cmd, "--forward %q is no address such as http://localhost:3000/hook", c.Forward)
	case c.Forward != "" && c.Control == sandbox.OnStdin:
		return misused(cmd, "--forward needs --control ADDR, or none: not commands on standard input")
	case c.Retries != nil && c.Forward == "":
		return misused(cmd, "--retries goes with --forward")
	case slices.ContainsFunc(c.Retries, func(wait time.Duration) bool { return wait <= 0 }):
		return misused(cmd, "--retries must be above 0")
	}
	if c.Program == "" {
		var err error
		if c.Program, err = installed("sandbox.wasm"); err != nil {
			return hint.Add(fmt.Errorf("finding the sandbox program: %w", err), "name it with --program")
		}
	}
	if c.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return hint.Add(fmt.Errorf("finding the cache: %w", err), "name a folder with --cache")
		}
		c.Cache = filepath.Join(dir, "partneredge")
	}
	return nil
}
