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

// Result is what a run made and how long it took. It is filled in as far as the run came, also on error.
type Result struct {
	runner.Outcome
	Manifest *manifest.Manifest
	Volumes  []Volume
	Resolve  resolve.Stats
	// Regions are counted in the process that finished the data, which may be an earlier one.
	Regions journal.ResolvedRegions
	// Stores are the times of each store: volume (from the first request until all of the store's are available), pod
	// (from the word to start until the process runs), TiKV (until PD has it up), collect, recover, flashback.
	Stores []phase.StoreParts
	// DataBytes is the data in all snapshots, LargestBytes that of the fullest volume; 0 where EC2 does not say.
	DataBytes, LargestBytes int64
	// Restored is true if the cluster serves the backup's data, whatever is Left.
	Restored bool
	// Account is the AWS account of the volumes.
	Account string
	// Left is what the run could not do or undo and a person has to see to.
	Left []string
	// Tasks are the log backups and changefeeds that read the restored cluster's changes.
	Tasks []pd.Task
	// Warnings are what a person has to see to though the run continued.
	Warnings []string
}

// leave notes something that the run could not do and that needs a person, though the cluster serves.
func (r *run) leave(format string, args ...any) {
	r.result.Left = append(r.result.Left, fmt.Sprintf(format, args...))
}

// finish is the command that finishes the restore of a cluster that is kept.
func (o *Options) finish() string {
	return fmt.Sprintf("tisnap resolve %s --backup %s", o.Target, o.Backup)
}

// conclude completes the result, and the error of a run whose cluster serves all of its data: it is Partial then,
// whatever failed after that, because the cluster is kept and can be used. A run that lost its cluster to another one
// says just that.
func (r *run) conclude(err error) error {
	switch {
	case err != nil && (!r.data.serves.Load() || r.runner.Fence().Loss() != nil):
		return err
	case err != nil && !r.data.led:
		return failure.New(failure.KindOf(err), "finish restore", r.opts.Target.String(),
			"not all of its data were seen to be there; the cluster is kept, as a TiDB of it answers: %w", err).
			WithHint("finish it with: %s", r.opts.finish())
	case failure.Is(err, failure.Partial), err == nil && len(r.result.Left) == 0:
		r.result.Restored = true
		return err // Partial is a run that did all, but for its last journal records
	}
	r.result.Restored = true
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
