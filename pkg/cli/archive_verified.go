package cli

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

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
	err := r.RecordVerified(ctx, o.Archives, result.Whole, o.Sample, time.Now())
	a.warn(err)
	if err != nil || a.global.storage == "" {
		return
	}
	c, err := a.connections(zap.NewNop())
	if err != nil {
		a.warn(err)
		return
	}
	defer c.close()
	store, err := c.store(ctx)
	if err == nil {
		err = recordArchives(ctx, store, r)
	}
	a.warn(err)
}

// recordArchives puts into the storage how much of each cluster's archives was verified.
func recordArchives(ctx context.Context, store objstore.Store, r *repository.Repository) error {
	entries, err := r.List(ctx)
	if err != nil {
		return err
	}
	read, err := r.Verified(ctx)
	if err != nil {
		return err
	}
	doc := manifest.Archives{Repository: r.ID().String(), At: time.Now().UTC()}
	for _, e := range entries {
		if e.Err != nil {
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
	text, err := doc.Encode()
	if err != nil {
		return err
	}
	key := manifest.ArchivesKey(doc.Repository)
	_, version, err := store.Get(ctx, key)
	switch {
	case failure.Is(err, failure.NotFound) && failure.HintOf(err) == "":
		_, err = store.Create(ctx, key, text)
	case err == nil:
		_, err = store.Replace(ctx, key, text, version)
	}
	if failure.Is(err, failure.Conflict) {
		return nil // another command has just done it
	}
	return failure.Annotate(err, "record archives", store.URL())
}
