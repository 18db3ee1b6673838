package fleet

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// readArchives reads what repositories had of the clusters. unreadable are the keys of those that cannot be decoded.
func (r *Reader) readArchives(ctx context.Context) (of []manifest.Archives, unreadable []string, err error) {
	objects, err := r.store.List(ctx, manifest.ArchivesPrefix)
	if err != nil {
		return nil, nil, failure.Annotate(err, "list archives", r.store.URL())
	}
	found := make([]*manifest.Archives, len(objects))
	bad := make([]bool, len(objects))
	err = parallel.Each(ctx, maxReads, objects, func(ctx context.Context, i int, o objstore.Object) error {
		body, _, err := r.store.Get(ctx, o.Key)
		switch {
		case failure.Is(err, failure.NotFound):
			return nil // deleted meanwhile
		case err == nil:
			found[i] = archivesAt(o.Key, body)
			bad[i] = found[i] == nil
			return nil
		case failure.Is(err, failure.Corrupt):
			bad[i] = true
			return nil
		}
		return failure.Annotate(err, "read archives", o.Key)
	})
	for i, o := range objects {
		switch {
		case bad[i]:
			unreadable = append(unreadable, o.Key)
		case found[i] != nil:
			of = append(of, *found[i])
		}
	}
	return of, unreadable, err
}

// archivesAt returns the archives that an object lists; nil if it is damaged, or of another repository than its key.
func archivesAt(key string, body []byte) *manifest.Archives {
	a, err := manifest.DecodeArchives(body)
	if err != nil || manifest.ArchivesKey(a.Repository) != key {
		return nil
	}
	return &a
}

// addArchives adds those in one repository, of the clusters that the storage knows.
func (s *State) addArchives(doc manifest.Archives) {
	for _, of := range doc.Clusters {
		c := s.Clusters[of.Cluster]
		if c == nil {
			continue
		}
		c.Archived.Archives += of.Archives
		c.Archived.Blocks += of.Blocks
		c.Archived.UnreadBlocks += of.UnreadBlocks
		if of.Verified.After(c.Archived.Verified) {
			c.Archived.Verified = of.Verified
		}
		c.Unreadable += doc.Unreadable
	}
}

// Unverified is the share of the blocks of the cluster's archives that no verification has read, as is to be expected;
// all of them while an archive, which may be of the cluster, cannot be read. It is false if there are none, or it was
// never recorded.
func (c *Cluster) Unverified() (share float64, known bool) {
	if c.Unreadable > 0 {
		return 1, true
	}
	if c.Archived.Blocks <= 0 {
		return 0, false
	}
	return min(max(c.Archived.UnreadBlocks/float64(c.Archived.Blocks), 0), 1), true
}
