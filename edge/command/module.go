package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/authoring"
	"partneredge/edge/hint"
	"partneredge/host"
	"partneredge/wasm"
)

func newModule() *cobra.Command {
	return newGroup("module", "write a module of one's own: start, build, test, check and run it",
		newLocalCommand("new NAME", "start a module in a folder that builds at once, without a network", defineModuleNew),
		newLocalCommand("build [DIR]", "build the module in DIR (default: the current folder)", defineModuleBuild),
		newLocalCommand("test [DIR]", "run the module's cases in a sandbox, with a fixed clock and data in memory", defineModuleTest),
		newLocalCommand("check [DIR]", "say what a host would refuse of the module, and what a call costs", defineModuleCheck),
		newLocalCommand("run [DIR]", "serve the module with a demo account, and load it anew when a file is saved", defineModuleRun),
	)
}

func defineModuleNew(flags *pflag.FlagSet) handler {
	language := flags.String("lang", "go", "`LANGUAGE` of the module: go, rust or c")
	dir := flags.String("dir", "", "`DIR` to write, which must be empty or missing (default: NAME)")
	return func(_ context.Context, c *invocation) error {
		*dir = cmp.Or(*dir, c.args[0])
		files, err := authoring.New(*dir, c.args[0], wasm.Language(*language))
		if err != nil {
			return err
		}
		return c.Line(map[string]any{"name": c.args[0], "dir": *dir, "files": files},
			fmt.Sprintf("%s holds a module in %s. Try this:\n\n  cd %s\n  edge module test\n  edge module run\n", *dir, *language, *dir))
	}
}

// moduleFlags are the flags of the commands that build a module.
type moduleFlags struct {
	out, cache string
	level      slog.Level // of what is logged
}

func (m *moduleFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&m.out, "out", "", "`DIR` to build into (default: build in the module's folder)")
}

func (m *moduleFlags) registerCache(flags *pflag.FlagSet) {
	flags.StringVar(&m.cache, "cache", "", "`DIR` of compiled code (default: a folder of the user's cache)")
}

// registerLog adds the flag of a command that calls the module, whose author wants to see what
// it logs.
func (m *moduleFlags) registerLog(flags *pflag.FlagSet) {
	flags.TextVar(&m.level, "log-level", slog.LevelInfo, "least `LEVEL` that the module logs to be shown: debug, info, warn, error")
}

// moduleDir returns the folder that the arguments name.
func moduleDir(c *invocation) string {
	if len(c.args) > 0 {
		return c.args[0]
	}
	return "."
}

// complete sets the cache that the flags leave open.
func (m *moduleFlags) complete() error {
	if m.cache != "" {
		return nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return hint.Add(fmt.Errorf("finding the cache: %w", err), "name a folder with --cache")
	}
	m.cache = filepath.Join(dir, "partneredge", "modules")
	return nil
}

func (m *moduleFlags) config(c *invocation) (authoring.Config, error) {
	if err := m.complete(); err != nil {
		return authoring.Config{}, err
	}
	log := slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: m.level}))
	return authoring.Config{Out: m.out, Cache: m.cache, Log: log, CheckDial: newCheckDial()}, nil
}

func defineModuleBuild(flags *pflag.FlagSet) handler {
	var m moduleFlags
	m.register(flags)
	return func(ctx context.Context, c *invocation) error {
		p, err := authoring.Open(moduleDir(c))
		if err != nil {
			return err
		}
		built, err := p.Build(ctx, m.out)
		if err != nil {
			return err
		}
		warn(c, built.Warnings)
		return c.Value(built, func(w io.Writer) {
			fmt.Fprintf(w, "%s\t%d bytes, %.1f s\n%s\t\n", built.Wasm, built.Size, float64(built.TookMS)/1000, built.Manifest)
		})
	}
}

func defineModuleTest(flags *pflag.FlagSet) handler {
	var m moduleFlags
	m.register(flags)
	m.registerCache(flags)
	m.registerLog(flags)
	return func(ctx context.Context, c *invocation) error {
		p, err := authoring.Open(moduleDir(c))
		if err != nil {
			return err
		}
		config, err := m.config(c)
		if err != nil {
			return err
		}
		report, err := p.Test(ctx, config)
		if err != nil {
			return err
		}
		warn(c, report.Warnings)
		failed := 0
		err = c.Value(report, func(w io.Writer) {
			for _, one := range report.Cases {
				verdict := "ok"
				if !one.OK {
					verdict = "FAIL"
				}
				fmt.Fprintf(w, "%s\t%s\t%d ms\n", verdict, one.Name, one.TookMS)
			}
			for _, one := range report.Cases {
				for _, problem := range one.Problems {
					fmt.Fprintf(w, "%s: %s\n", one.Name, problem)
				}
			}
		})
		for _, one := range report.Cases {
			if !one.OK {
				failed++
			}
		}
		if err == nil && failed > 0 {
			err = fmt.Errorf("testing the module: %d of %d cases failed", failed, len(report.Cases))
		}
		return err
	}
}

func defineModuleCheck(flags *pflag.FlagSet) handler {
	var m moduleFlags
	m.register(flags)
	m.registerCache(flags)
	cpu := flags.Duration("cpu", host.DefaultCPU, "`DURATION` that a call may compute; the default is a node's")
	strict := flags.Bool("strict", false, "fail where there are warnings, too")
	return func(ctx context.Context, c *invocation) error {
		p, err := authoring.Open(moduleDir(c))
		if err != nil {
			return err
		}
		m.level = slog.LevelError + 1 // what it is told of is in the findings
		config, err := m.config(c)
		if err != nil {
			return err
		}
		if *cpu <= 0 {
			return misused(c.cmd, "--cpu must be more than 0")
		}
		config.CPU = *cpu
		report, err := p.Check(ctx, config)
		if err != nil {
			return err
		}
		if err := c.Value(report, func(w io.Writer) { writeCheck(w, report) }); err != nil {
			return err
		}
		switch {
		case !report.OK:
			return hint.Add(errors.New("checking the module: a host would refuse it"), "what is marked error must be mended first")
		case *strict && len(report.Findings) > 0:
			return hint.Add(fmt.Errorf("checking the module: %d warnings", len(report.Findings)), "without --strict warnings do not fail")
		}
		return nil
	}
}

func writeCheck(w io.Writer, r authoring.CheckReport) {
	fmt.Fprintf(w, "module\t%s, %d bytes\n", r.Name, r.Size)
	if r.Image > 0 {
		fmt.Fprintf(w, "image\t%d bytes, opened in %d ms\n", r.Image, r.OpenMS)
	}
	if r.CallUS > 0 {
		fmt.Fprintf(w, "call\t%.1f us, %.1f pages written\n", r.CallUS, r.PagesWritten)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s\t%s: %s\n", f.Level, f.Rule, f.Text)
	}
}

func defineModuleRun(flags *pflag.FlagSet) handler {
	var m moduleFlags
	m.register(flags)
	m.registerCache(flags)
	m.registerLog(flags)
	listen := flags.String("listen", "127.0.0.1:8080", "`ADDR` (host:port) of the API; port 0 is any free one")
	fakes := flags.Bool("fake-upstreams", false, "let the upstreams of cases.json stand for the servers that the module asks")
	return func(ctx context.Context, c *invocation) error {
		config, err := m.config(c)
		if err != nil {
			return err
		}
		return authoring.Serve(ctx, moduleDir(c), authoring.ServeConfig{
			Config: config, Listen: *listen, FakeUpstreams: *fakes,
			Loaded: func(l authoring.Loaded) {
				warn(c, l.Warnings)
				_ = c.Value(l, func(w io.Writer) { writeLoaded(w, l) }) // nobody is left to tell
			},
			Failed: func(err error) {
				if c.JSON {
					_ = c.Value(map[string]string{"event": "failed", "error": err.Error()}, nil)
					return
				}
				report(err, c.stderr)
				fmt.Fprintln(c.stderr, "what was loaded before goes on answering")
			},
		})
	}
}

func writeLoaded(w io.Writer, l authoring.Loaded) {
	if l.Event != "ready" {
		fmt.Fprintf(w, "%s\tloaded after %.1f s\n", l.Name, float64(l.TookMS)/1000)
		return
	}
	fmt.Fprintf(w, "\n%s answers at %s; a save loads it anew. Ctrl-C stops it.\n\n", l.Name, l.URL)
	fmt.Fprintf(w, "  live key\t%s\n  test key\t%s\n\nTry this:\n\n  curl -i '%s%s' -H 'Authorization: Bearer %s'\n\n", l.Live, l.Test, l.URL, l.Try, l.Live)
}

// warn prints what a compiler warns of, unless the output says so as JSON.
func warn(c *invocation, warnings string) {
	if warnings != "" && !c.JSON {
		fmt.Fprintln(c.stderr, warnings)
	}
}
