package prune

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/replace"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/retention"
)

// Decision is what a policy makes of an archive.
type Decision struct {
	ID      string
	Backup  string
	Cluster string
	Of      time.Time // the backup's time, or that of an import; zero if the archive cannot be read
	Forget  bool
	Reason  string
}

// Decide applies a policy to the archives of each cluster, by the time of their backups, and to the imports of each
// name, by their own, and changes nothing. The newest archive of a cluster, or import of a name, is kept, and so is
// what cannot be read. The result is sorted by cluster, newest first.
func Decide(ctx context.Context, r *repository.Repository, p retention.Policy) ([]Decision, error) {
	ids, err := r.Archives(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]Decision{}
	clusters := map[string][]retention.Backup{}
	for _, id := range ids {
		a, err := r.Archive(ctx, id)
		switch {
		case replace.Gone(err): // forgotten meanwhile
			continue
		case failure.Is(err, failure.Corrupt) || failure.Is(err, failure.Usage):
			all[id] = Decision{ID: id, Reason: "it cannot be read: forget it by its id"}
			continue
		case err != nil:
			return nil, err
		}
		d := Decision{ID: id, Backup: a.Backup, Cluster: a.Cluster, Of: cluster.TS(a.BackupTS).Time()}
		all[id] = d
		of, tags := a.Cluster, []string(nil)
		if a.Imported() {
			d.Of, of = a.Created, "import "+a.Backup
			all[id] = d
		}
		if m, err := manifest.Decode(a.Manifest.Data); err == nil {
			of, tags = fmt.Sprint(m.Source.ClusterID), m.Tags
		}
		clusters[of] = append(clusters[of], retention.Backup{ID: cluster.BackupID(id), Created: d.Of, Tags: tags})
	}
	for _, archives := range clusters {
		for _, fate := range p.Apply(archives) {
			d := all[string(fate.ID)]
			d.Forget, d.Reason = len(fate.Reasons) == 0, strings.Join(fate.Reasons, ", ")
			if d.Forget {
				d.Reason = "no rule keeps it"
			}
			all[d.ID] = d
		}
	}
	out := make([]Decision, 0, len(all))
	for _, d := range all {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), b.Of.Compare(a.Of), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Forget gives an archive up: a tombstone takes its place, and a later prune deletes what no other archive refers to.
// One that cannot be read is forgotten, too. Forgetting it again succeeds.
func Forget(ctx context.Context, r *repository.Repository, id string) error {
	path, err := format.ArchivePath(id)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		object, version, err := r.Objects().Get(ctx, path)
		if replace.Gone(err) {
			_, _, readErr := r.ArchiveVersion(ctx, id)
			switch { // others have deleted it
			case readErr == nil || failure.Is(readErr, failure.Corrupt) || failure.Is(readErr, failure.Usage):
				_, err = r.Objects().Create(ctx, path, []byte(format.Tombstone))
				return failure.Annotate(err, "forget archive", id)
			case !replace.Gone(readErr):
				err = readErr
			}
		}
		if err != nil {
			return failure.Annotate(err, "forget archive", id)
		}
		if string(object) == format.Tombstone {
			return nil
		}
		_, err = r.Objects().Replace(ctx, path, []byte(format.Tombstone), version)
		if try == swaps || !failure.Is(err, failure.Conflict) { // a prune has rewritten it, or another one forgotten
			return failure.Annotate(err, "forget archive", id)
		}
	}
}
