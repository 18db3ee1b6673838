package cli

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// recordVerified records in the repository what was read, and in the storage, if there is one, what that means for its
// clusters. Whatever fails is a warning: then less counts as read than was.
func (a *app) recordVerified(
	ctx context.Context, r *repository.Repository, o verify.Options, result *verify.Result,
) {
	ids, whole := o.Archives, result.Whole
	if o.Level != verify.Data { // no block was read: all that it shows is damage
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, is := whole[id]; return is })
		if whole = nil; len(ids) == 0 {
			return
		}
	}
	err := r.RecordVerified(ctx, ids, whole, o.Sample, time.Now())
	a.warn(err)
	if err == nil {
		a.recordInStorage(ctx, r)
	}
}

// recordInStorage puts into the storage, if there is one, what the repository has now. That it fails is a warning: the
// next command does it.
func (a *app) recordInStorage(ctx context.Context, r *repository.Repository) {
	if a.global.storage == "" {
		return
	}
	store, done, err := a.openStore(ctx)
	if err == nil {
		defer done()
		err = recordArchives(ctx, store, r)
	}
	a.warn(err)
}

// recordTries is how often the document is made again because another command replaced it meanwhile.
const recordTries = 5

// recordArchives puts into the storage how much of each cluster's archives was verified.
func recordArchives(ctx context.Context, store objstore.Store, r *repository.Repository) error {
	key := manifest.ArchivesKey(r.ID().String())
	for try := 1; ; try++ {
		text, version, err := objstore.ToReplace(ctx, store, key) // first: who comes later has seen as much
		if err != nil {
			return failure.Annotate(err, "record archives", store.URL())
		}
		before, err := manifest.DecodeArchives(text)
		if err != nil { // none, or damaged
			before = manifest.Archives{}
		}
		doc, err := archivesByCluster(ctx, r)
		if err != nil {
			return err
		}
		if text, err = doc.Since(before).Encode(); err != nil {
			return err
		}
		err = objstore.WriteOver(ctx, store, key, text, version)
		if !failure.Is(err, failure.Conflict) || try == recordTries {
			return failure.Annotate(err, "record archives", store.URL())
		}
	}
}

// archivesByCluster is what a repository has of each cluster.
func archivesByCluster(ctx context.Context, r *repository.Repository) (doc manifest.Archives, err error) {
	entries, err := r.List(ctx)
	if err != nil {
		return doc, err
	}
	read, err := r.Verified(ctx)
	if err != nil {
		return doc, err
	}
	doc = manifest.Archives{Repository: r.ID().String(), At: time.Now().UTC()}
	for _, e := range entries {
		if e.Err != nil {
			doc.Unreadable++
			continue
		}
		name, err := cluster.ParseName(e.Archive.Cluster, "")
		if err != nil {
			continue // of no cluster
		}
		i := slices.IndexFunc(doc.Clusters, func(c manifest.ClustersArchives) bool { return c.Cluster == name })
		if i < 0 {
			i = len(doc.Clusters)
			doc.Clusters = append(doc.Clusters, manifest.ClustersArchives{Cluster: name})
		}
		c, of, saved := &doc.Clusters[i], read.Of(e.ID, e.Maps), e.Archive.Saved()
		c.Archives++
		c.Blocks += saved
		c.UnreadBlocks += of.Unread * float64(saved)
		if of.Last.After(c.Verified) {
			c.Verified = of.Last
		}
	}
	return doc, nil
}
