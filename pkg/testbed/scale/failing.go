package scale

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Sample is what a process has after a number of runs, once they are all over.
type Sample struct {
	Runs        int    `json:"runs"`
	ExitCode    int    `json:"exitCode"` // of the last run
	Goroutines  int    `json:"goroutines"`
	HeapBytes   uint64 `json:"heapBytes"`   // of live objects, after a collection
	Descriptors int    `json:"descriptors"` // open files and connections
}

// Failures are kinds of faults, each of which makes a backup fail in another part of its hold.
func Failures() []fault.Rule {
	return []fault.Rule{
		{Point: "ec2.CreateSnapshots", Nth: 2, Code: "UnauthorizedOperation", Times: -1},
		{Point: "tikv.*.PrepareSnapshotBackup.UpdateLease", Code: "Unavailable", Times: -1},
		{Point: "tikv.*.PrepareSnapshotBackup.WaitApply", Code: "Unavailable", Times: -1},
		{Point: "tikv.*.SuspendImportRPC", Code: "Unavailable", Times: 3},
		{Point: "pd.PauseScheduler", Code: "403", Times: -1},
		{Point: "pd.SetTTLConfig", Code: "400", Times: -1},
		{Point: "pd.UpdateServiceGCSafePoint", Code: "FailedPrecondition", Times: 1},
		{Point: "tikv.*.PrepareSnapshotBackup", Code: "Unimplemented", Times: -1},
	}
}

// Serve runs the program once for each line that it reads, and answers with a sample: the other end of Fail.
func Serve(ctx context.Context, in io.Reader, out io.Writer, run func(ctx context.Context, n int) int) error {
	lines := bufio.NewScanner(in)
	answers := json.NewEncoder(out)
	for n := 1; lines.Scan(); n++ {
		code := run(ctx, n)
		if err := answers.Encode(TakeSample(ctx, n, code)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// TakeSample takes a sample of this process, once the number of its goroutines stays the same for a moment.
func TakeSample(ctx context.Context, runs, code int) Sample {
	before := runtime.NumGoroutine()
	for range 40 {
		if wait.For(ctx, 25*time.Millisecond) != nil {
			break
		}
		now := runtime.NumGoroutine()
		if now == before {
			break
		}
		before = now
	}
	for range 2 { // what the first one finalizes, the second one frees
		runtime.GC()
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return Sample{
		Runs: runs, ExitCode: code, Goroutines: runtime.NumGoroutine(), HeapBytes: mem.HeapAlloc, Descriptors: descriptors(),
	}
}

// descriptors counts the open files of this process; 0 where the kernel does not list them.
func descriptors() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// Fail drives a process that runs Serve against the cluster of a small testbed, with another fault in each run, and
// returns its samples. Every run has to fail and to leave nothing held.
func Fail(runs int, held func() []string, plan *fault.Plan, to io.Writer, from io.Reader) ([]Sample, error) {
	faults := Failures()
	answers := json.NewDecoder(from)
	var samples []Sample
	for i := range runs {
		plan.Clear()
		rule := faults[i%len(faults)]
		if err := plan.Add(rule); err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintln(to, rule.Point); err != nil {
			return nil, err
		}
		var s Sample
		if err := answers.Decode(&s); err != nil {
			return nil, fmt.Errorf("run %d: %w", i+1, err)
		}
		samples = append(samples, s)
		switch left := held(); {
		case len(left) > 0:
			return samples, fmt.Errorf("run %d with a fault at %s left held: %v", i+1, rule.Point, left)
		case s.ExitCode == 0:
			return samples, fmt.Errorf("run %d with a fault at %s did not fail", i+1, rule.Point)
		}
	}
	plan.Clear()
	if len(samples) == 0 {
		return nil, errors.New("no runs")
	}
	return samples, nil
}

// Cluster is the name of the clusters of this package.
func Cluster() cluster.Name { return prod }

// FailingBackup is the command line of the nth run that fails.
func FailingBackup(n int) []string {
	return []string{
		"backup", prod.String(), "--name", fmt.Sprintf("failing-%d", n), "--storage", storage, "-o", "json", "--progress", "none",
		"--lease", "3s", "--max-hold", "5s", "--hold-attempts", "1",
	}
}

// StartSmall makes a testbed with a static cluster of three stores, whose EC2 is fast.
func StartSmall(ctx context.Context, dir string) (*testbed.Testbed, *fault.Plan, error) {
	plan := &fault.Plan{}
	bed, err := testbed.Start(context.WithoutCancel(ctx), testbed.Config{
		Dir: dir, Nodes: 3, Scale: 50, Faults: plan, StaticRegions: 10,
	})
	if err != nil {
		return nil, nil, err
	}
	if _, err := bed.CreateCluster(ctx, prod, 3); err != nil {
		bed.Close()
		return nil, nil, err
	}
	return bed, plan, nil
}
