package gotuning

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestProcsFor(t *testing.T) {
	none := math.Inf(1)
	for _, tt := range []struct {
		usual, processors int
		quota             float64
		want              int
	}{
		{1, 1, none, 2},
		{2, 2, none, 4},
		{4, 4, none, 8},
		{64, 64, none, 68},
		{2, 64, 2, 2},
		{2, 64, none, 2},                             // a quota that cannot be read here
		{2, 2, 0.5, 2}, {2, 2, 1, 2}, {4, 4, 3.5, 4}, // Go takes two at least, and rounds up
		{2, 2, 2, 4},
	} {
		if got := procsFor(tt.usual, tt.processors, tt.quota); got != tt.want {
			t.Errorf("Go takes %d of %d processors with a quota of %g: %d, want %d", tt.usual, tt.processors, tt.quota, got, tt.want)
		}
	}
}

// TestCPUQuota reads quotas where the two versions of cgroups have them: for a process of
// the machine, and for one of a container that sees the files of its own cgroup alone.
func TestCPUQuota(t *testing.T) {
	const (
		unit   = "0::/system.slice/edge.service\n"
		v2     = "30 1 0:26 / DIR/v2 rw,nosuid - cgroup2 cgroup2 rw\n"
		docker = "4:cpu,cpuacct:/docker/7\n1:name=systemd:/docker/7\n0::/\n"
		v1     = "31 1 0:27 /docker/7 DIR/v1 ro,nosuid master:9 - cgroup cgroup rw,cpu,cpuacct\n32 1 0:28 /docker/7 DIR/memory ro - cgroup cgroup rw,memory\n"
	)
	for name, tt := range map[string]struct {
		cgroup, mounts string
		files          map[string]string
		want           float64
	}{
		"a unit":                  {unit, v2, map[string]string{"v2/system.slice/edge.service/cpu.max": "50000 100000\n"}, 0.5},
		"a unit without a quota":  {unit, v2, map[string]string{"v2/system.slice/edge.service/cpu.max": "max 100000\n"}, math.Inf(1)},
		"no controller":           {unit, v2, nil, math.Inf(1)},
		"another's cgroup":        {"0::/../other\n", v2, map[string]string{"other/cpu.max": "50000 100000\n"}, math.Inf(1)},
		"version 1":               {docker, v1, map[string]string{"v1/cpu.cfs_quota_us": "350000\n", "v1/cpu.cfs_period_us": "100000\n"}, 3.5},
		"version 1 without quota": {docker, v1, map[string]string{"v1/cpu.cfs_quota_us": "-1\n", "v1/cpu.cfs_period_us": "100000\n"}, math.Inf(1)},
		"no proc":                 {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			proc := filepath.Join(dir, "proc")
			if tt.cgroup == "" {
				tt.want = math.Inf(1)
			} else {
				tt.files = maps.Clone(tt.files)
				if tt.files == nil {
					tt.files = map[string]string{}
				}
				tt.files["proc/1/cgroup"], tt.files["proc/1/mountinfo"] = tt.cgroup, strings.ReplaceAll(tt.mounts, "DIR", dir)
			}
			for file, text := range tt.files {
				file = filepath.Join(dir, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if tt.cgroup != "" {
				if err := os.Symlink("1", filepath.Join(proc, "self")); err != nil {
					t.Fatal(err)
				}
			}
			if got := cpuQuota(proc); got != tt.want {
				t.Errorf("the quota is %g, want %g", got, tt.want)
			}
		})
	}
}

func TestRaiseGOMAXPROCS(t *testing.T) {
	for _, set := range []string{"", "3"} {
		t.Setenv("GOMAXPROCS", set)
		before := runtime.GOMAXPROCS(0)
		want := before
		if set == "" {
			want = procsFor(before, runtime.NumCPU(), cpuQuota("/proc"))
		}
		stop := raiseGOMAXPROCS()
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("with GOMAXPROCS=%q: %d, want %d", set, got, want)
		}
		stop()
		if got := runtime.GOMAXPROCS(0); got != before {
			t.Errorf("with GOMAXPROCS=%q: %d left behind, was %d", set, got, before)
		}
	}
}
