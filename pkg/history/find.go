package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// Found is what a name refers to: a backup with all its runs, or one run of it.
type Found struct {
	Backup cluster.BackupID
	// Asked is the requested run; "" if it was the backup.
	Asked cluster.RunID
	// Reports are those of all runs of the backup: the backup's own first, then the oldest first.
	Reports []*report.Report
}

// Report is the requested report; nil if the backup has none of its own.
func (f *Found) Report() *report.Report {
	for _, r := range f.Reports {
		if r.Run == f.Asked || f.Asked == "" && r.Operation == report.Backup {
			return r
		}
	}
	return nil
}

// Find returns the reports of a backup, or of the backup that a run made or restored. A name that is neither is
// NotFound, with the nearest names as a hint.
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
	f, err := r.identify(ctx, name, objects)
	if err != nil {
		return nil, err
	}
	f.Reports, err = r.reports(ctx, f.Backup, objects)
	return f, err
}

// Reports returns the reports of the backup's runs: its own first, then the oldest first. It may be deleted by now.
func (r *Reader) Reports(ctx context.Context, id cluster.BackupID) ([]*report.Report, error) {
	objects, err := r.store.List(ctx, manifest.ReportsOf(id))
	if err != nil {
		return nil, failure.Annotate(err, "list reports", string(id))
	}
	return r.reports(ctx, id, objects)
}

func (r *Reader) reports(
	ctx context.Context, id cluster.BackupID, objects []objstore.Object,
) ([]*report.Report, error) {
	var keys []string
	for _, o := range objects {
		if backup, _, ok := manifest.SplitReportKey(o.Key); ok && backup == id {
			keys = append(keys, o.Key)
		}
	}
	out := make([]*report.Report, len(keys))
	err := parallel.Each(ctx, maxReads, keys, func(ctx context.Context, i int, key string) (err error) {
		out[i], err = r.Report(ctx, key)
		if failure.Is(err, failure.NotFound) {
			return nil // gc has deleted it meanwhile
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out = slices.DeleteFunc(out, func(r *report.Report) bool { return r == nil })
	slices.SortFunc(out, func(a, b *report.Report) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Run, b.Run))
	})
	if i := own(out); i > 0 {
		first := out[i]
		out = slices.Insert(slices.Delete(out, i, i+1), 0, first)
	}
	return out, nil
}

// own is the index of the backup's own report among those of all runs under its name, the oldest first: tries of it
// may have failed, and the name may have been deleted and used again. It is the newest that succeeded, else the newest;
// -1 if there is none.
func own(reports []*report.Report) int {
	at := -1
	for i, r := range reports {
		if r.Operation == report.Backup && (at < 0 || r.Outcome == phase.Done || reports[at].Outcome != phase.Done) {
			at = i
		}
	}
	return at
}

// identify returns the backup and run to which a name refers.
func (r *Reader) identify(ctx context.Context, name string, objects []objstore.Object) (*Found, error) {
	var names []string
	for _, o := range objects {
		id, file, ok := manifest.SplitBackupKey(o.Key)
		switch {
		case ok && string(id) == name:
			return &Found{Backup: id}, nil
		case ok && file == manifest.ClaimFile:
			names = append(names, string(id))
		}
	}
	for _, o := range objects {
		backup, run, ok := manifest.SplitReportKey(o.Key)
		switch {
		case ok && string(run) == name:
			return &Found{Backup: backup, Asked: run}, nil
		case ok && string(backup) == name: // it is deleted
			return &Found{Backup: backup}, nil
		case ok:
			names = append(names, string(run))
		}
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
