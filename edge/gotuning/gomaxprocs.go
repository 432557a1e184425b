package gotuning

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/prometheus/procfs"
)

// raiseGOMAXPROCS sets GOMAXPROCS to what procsFor returns until stop is called,
// unless it is in the environment.
func raiseGOMAXPROCS() (stop func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	before := runtime.GOMAXPROCS(0)
	procs := procsFor(before, runtime.NumCPU(), cpuQuota(procfs.DefaultMountPoint))
	if procs == before {
		return func() {}
	}
	runtime.GOMAXPROCS(procs)
	return runtime.SetDefaultGOMAXPROCS
}

// procsFor returns the GOMAXPROCS of a node, given Go's default, the machine's
// processors and the quota of the cgroup. A P whose thread is in a short system call,
// or whose thread the kernel has preempted for another process, is held and does
// nothing: without a spare P a processor idles meanwhile. Where a cgroup allows less
// than the processors there are no spare ones: it would stop a process that uses up
// its time too soon. Go's default hides a quota that it rounds up to all processors.
func procsFor(usual, processors int, quota float64) int {
	if usual < processors || quota < float64(processors) {
		return usual
	}
	return usual + min(usual, maxSpare)
}

// maxSpare bounds the spare Ps: the more there are, the less one that is held
// matters, and each keeps memory of its own.
const maxSpare = 4

// cpuQuota returns how many processors the cgroup of this process may use, infinity if it
// has no quota or none that can be read. As Go's runtime does, it asks no cgroup above.
func cpuQuota(proc string) float64 {
	quota := math.Inf(1)
	system, err := procfs.NewFS(proc)
	if err != nil {
		return quota
	}
	self, err := system.Self()
	if err != nil {
		return quota
	}
	groups, err := self.Cgroups()
	if err != nil {
		return quota
	}
	mounts, err := self.MountInfo()
	if err != nil {
		return quota
	}
	for _, group := range groups {
		for _, mount := range mounts {
			quota = min(quota, quotaOf(group, mount))
		}
	}
	return quota
}

// quotaOf returns the quota of a cgroup, infinity if mount does not have it.
func quotaOf(group procfs.Cgroup, mount *procfs.MountInfo) float64 {
	_, ofProcessors := mount.SuperOptions["cpu"]
	var names []string
	switch {
	case mount.FSType == "cgroup2" && group.HierarchyID == 0:
		names = []string{"cpu.max"} // both, or "max" and the period
	case mount.FSType == "cgroup" && ofProcessors && slices.Contains(group.Controllers, "cpu"):
		names = []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"}
	}
	below, err := filepath.Rel(mount.Root, group.Path)
	if err != nil || !filepath.IsLocal(below) {
		return math.Inf(1) // the mount is of a part of the cgroups that has not this one
	}
	var text []byte
	for _, name := range names {
		one, _ := os.ReadFile(filepath.Join(mount.MountPoint, below, name)) // none without the controller
		text = append(text, one...)
	}
	var quota, period float64
	if _, err := fmt.Sscan(string(text), &quota, &period); err != nil || quota <= 0 || period <= 0 {
		return math.Inf(1)
	}
	return quota / period
}
