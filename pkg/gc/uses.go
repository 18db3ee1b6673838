package gc

import (
	"context"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// copied returns the owner of a live lease on the backup, by a run that copies it into another storage, where its
// journal is; nil if there is none.
func (x *deletion) copied(ctx context.Context) (*runlock.Owner, error) {
	objects, err := x.Store.List(ctx, manifest.LocksPrefix)
	if err != nil {
		return nil, failure.Annotate(err, "list leases", x.Store.URL())
	}
	for _, o := range objects {
		name, is := lockName(o.Key)
		if !is || !journal.IsUse(name) {
			continue
		}
		lease, _, err := runlock.Read(ctx, x.Store, name)
		if err != nil {
			return nil, err
		}
		if lease.Owner.Backup != x.opts.Backup {
			continue
		}
		found, err := runlock.Observe(ctx, x.Store, name, x.Watching)
		if err != nil {
			return nil, err
		}
		if found.Held(time.Now()) && found.Record.Owner.Backup == x.opts.Backup {
			return &found.Record.Owner, nil
		}
	}
	return nil, nil
}

// lockName reads manifest.LockKey; false for any other key.
func lockName(key string) (cluster.Name, bool) {
	file, inFolder := strings.CutPrefix(key, manifest.LocksPrefix)
	base, isJSON := strings.CutSuffix(file, ".json")
	namespace, name, ok := strings.Cut(base, ".")
	return cluster.Name{Namespace: namespace, Name: name}, inFolder && isJSON && ok
}
