package restore

import (
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/runner"
)

// Result is what a run made and how long it took, as far as it got, also on error.
type Result struct {
	runner.Outcome
	Manifest *manifest.Manifest
	Volumes  []Volume
	Resolve  resolve.Stats
	// Regions are counted in the process that finished the data, which may be an earlier one.
	Regions journal.ResolvedRegions
	// Stores are the times per store: volume (from the first request until all of the store's are available), pod (from
	// the start signal until the process runs), TiKV (until it is up in PD), collect, recover, flashback.
	Stores []phase.StoreParts
	// DataBytes is the data in all snapshots, LargestBytes that of the fullest volume; 0 if EC2 does not report it.
	DataBytes, LargestBytes int64
	// Restored is true if the cluster serves the backup's data, whatever is Left.
	Restored bool
	// Account is the AWS account of the volumes.
	Account string
	// Left is what the run could not do or undo, and needs attention.
	Left []string
	// Tasks are the log backups and changefeeds of the restored cluster.
	Tasks []pd.Task
	// Warnings need attention, although the run continued.
	Warnings []string
}

// leave records something that the run could not do and that needs attention, although the cluster serves.
func (r *run) leave(format string, args ...any) {
	r.result.leave(fmt.Sprintf(format, args...))
}

// report completes the result.
func (r *run) report(outcome runner.Outcome) Result {
	planned, out := r.making.Plan(), r.result
	out.Outcome, out.Manifest, out.Volumes = outcome, r.backup.Manifest, r.making.Volumes()
	out.DataBytes, out.LargestBytes = planned.DataBytes, planned.LargestBytes
	if r.Archive != nil && out.DataBytes == 0 { // this process found the snapshots deleted
		out.DataBytes, out.LargestBytes = r.Archive.Bytes()
	}
	out.Resolve, out.Regions = r.resolver.Stats(), r.regionsDone()
	out.Stores = r.arrival.times.Stores(r.pods())
	return out
}

func (res *Result) leave(text string)       { res.Left = append(res.Left, text) }
func (res *Result) warn(text string)        { res.Warnings = append(res.Warnings, text) }
func (res *Result) found(running []pd.Task) { res.Tasks = append(res.Tasks, running...) }

// isRestored notes that the cluster serves the backup's data.
func (res *Result) isRestored() { res.Restored = true }

// in notes the AWS account.
func (res *Result) in(account string) { res.Account = account }

// finish returns the command that finishes the restore of a kept cluster.
func (o *Options) finish() string {
	return fmt.Sprintf("tisnap resolve %s --backup %s", o.Target, o.Backup)
}

// conclude completes the result and the error. If the cluster serves all of its data the error is Partial, whatever
// failed after that, because the cluster is kept and usable. A run that lost its cluster to another one only reports
// that.
func (r *run) conclude(err error) error {
	switch {
	case err != nil && (!r.data.serves.Load() || r.runner.Fence().Loss() != nil):
		return err
	case err != nil && !r.data.leadersReady:
		return failure.New(failure.KindOf(err), "finish restore", r.opts.Target.String(),
			"not all regions were confirmed; the cluster is kept because TiDB already answers: %w", err).
			WithHint("finish it with: %s", r.opts.finish())
	case failure.Is(err, failure.Partial), err == nil && len(r.result.Left) == 0:
		r.result.isRestored()
		return err // Partial: everything was done except the last journal records
	}
	r.result.isRestored()
	target := r.opts.Target
	if err == nil {
		return failure.New(failure.Partial, "finish restore", target.String(), "the cluster serves its data, but %s",
			strings.Join(r.result.Left, "; "))
	}
	finish := r.opts.finish()
	partial := failure.New(failure.Partial, "finish restore", target.String(),
		"the cluster is restored and kept, but not finished: %w", err).
		WithHint("finish it with: %s", finish)
	r.leave("the restore is not finished, finish it with `%s`: %v", finish, err)
	return partial
}
