package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/report"
)

// Found is what a name stands for: a backup with all its runs, or one run of it.
type Found struct {
	Backup cluster.BackupID
	// Asked is the run that was asked for; "" if it was the backup.
	Asked cluster.RunID
	// Reports are of all runs of the backup that have one: the backup's own first, then the oldest first.
	Reports []*report.Report
}

// Report is the report that was asked for; nil if the backup has none of its own.
func (f *Found) Report() *report.Report {
	for _, r := range f.Reports {
		if r.Run == f.Asked || f.Asked == "" && r.Operation == report.Backup {
			return r
		}
	}
	return nil
}

// Find returns the reports of a backup, or of the backup that a run made or restored. A name that is neither is
// NotFound, and the hint has the nearest ones.
func (r *Reader) Find(ctx context.Context, name string) (*Found, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, err := r.find(ctx, name)
	return found, failure.Annotate(err, "find report", name)
}

func (r *Reader) find(ctx context.Context, name string) (*Found, error) {
	objects, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	failed, err := r.read(ctx, onlyFailed(objects), time.Time{})
	if err != nil {
		return nil, err
	}
	f, err := r.identify(ctx, name, objects, failed.Runs)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, o := range objects {
		if strings.HasPrefix(o.Key, manifest.BackupPrefix(f.Backup)) && isReport(o.Key) {
			keys = append(keys, o.Key)
		}
	}
	for _, run := range failed.Runs {
		if run.Run == f.Asked || f.Backup != "" && run.Backup == f.Backup {
			keys = append(keys, run.Key)
		}
	}
	f.Reports = make([]*report.Report, len(keys))
	err = parallel.Each(ctx, maxReads, keys, func(ctx context.Context, i int, key string) (err error) {
		f.Reports[i], err = r.Report(ctx, key)
		return err
	})
	f.Reports = inOrder(f.Reports)
	return f, err
}

// identify says which backup and run a name stands for.
func (r *Reader) identify(ctx context.Context, name string, objects []objstore.Object, failed []Run) (*Found, error) {
	var names []string
	for _, o := range objects {
		id, file, ok := manifest.SplitBackupKey(o.Key)
		switch {
		case ok && string(id) == name:
			return &Found{Backup: id}, nil
		case ok && file == "restores/"+name+".json":
			return &Found{Backup: id, Asked: cluster.RunID(name)}, nil
		case ok && file == manifest.ClaimFile:
			names = append(names, string(id))
		}
	}
	for _, run := range failed {
		if string(run.Run) == name {
			return &Found{Backup: run.Backup, Asked: run.Run}, nil
		}
		if string(run.Backup) == name {
			return &Found{Backup: run.Backup}, nil
		}
		names = append(names, string(run.Run))
	}
	r.small.begin(objects)
	backups, err := (catalog.Catalog{Store: r.small}).List(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range backups {
		if string(b.Run) == name {
			return &Found{Backup: b.ID, Asked: b.Run}, nil
		}
	}
	hint := "see `tisnap list`"
	if near := failure.Nearest(name, names, 3); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %s? see `tisnap list`", strings.Join(near, ", "))
	}
	return nil, failure.New(failure.NotFound, "", "", "no such backup or run in %s", r.store.URL()).WithHint("%s", hint)
}

// onlyFailed are the reports of failed runs.
func onlyFailed(objects []objstore.Object) []objstore.Object {
	return slices.DeleteFunc(slices.Clone(objects),
		func(o objstore.Object) bool { return !strings.HasPrefix(o.Key, manifest.ReportsPrefix) })
}

// inOrder puts the backup's own runs first, then the oldest, and leaves out the failure of a run that was done later.
func inOrder(reports []*report.Report) []*report.Report {
	last := map[cluster.RunID]*report.Report{}
	for _, r := range reports {
		if r != nil && (last[r.Run] == nil || last[r.Run].Finished.Before(r.Finished)) {
			last[r.Run] = r
		}
	}
	reports = slices.DeleteFunc(reports, func(r *report.Report) bool { return r == nil || last[r.Run] != r })
	slices.SortStableFunc(reports, func(a, b *report.Report) int {
		if (a.Operation == report.Backup) != (b.Operation == report.Backup) {
			if a.Operation == report.Backup {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Run, b.Run))
	})
	return reports
}
