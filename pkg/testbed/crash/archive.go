package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"filippo.io/age"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// repo is the scene's repository.
func (s *scene) repo() string { return fmt.Sprintf("s3://%s/archive-%d", testbed.Bucket, s.n) }

// inRepo is a command on the scene's repository.
func (s *scene) inRepo(args ...string) []string {
	return append(append([]string{"archive"}, args...), s.repoFlags()...)
}

func (s *scene) repoFlags() []string {
	return []string{"--repo", s.repo(), "--repo-identity", s.identityFile()}
}

func (s *scene) identityFile() string {
	return filepath.Join(filepath.Dir(s.bed.Kubeconfig()), fmt.Sprintf("identity-%d", s.n))
}

// initRepo creates the repository.
func (s *scene) initRepo(ctx context.Context) error {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.identityFile(), []byte(identity.String()+"\n"), 0o600); err != nil {
		return err
	}
	return s.succeeds(ctx, append([]string{
		"archive", "init", "--repo", s.repo(), "--recipient", identity.Recipient().String(),
	}, s.init...)...)
}

// openRepo unlocks the repository. done closes its storage.
func (s *scene) openRepo(ctx context.Context) (r *repository.Repository, done func(), err error) {
	store, err := objstore.Open(ctx, s.repo(), objstore.Config{Region: testbed.Region, Endpoint: s.bed.AWS()})
	if err != nil {
		return nil, nil, err
	}
	done = func() {}
	if c, ok := store.(interface{ Close() }); ok {
		done = c.Close
	}
	text, err := os.ReadFile(s.identityFile())
	var identities []age.Identity
	if err == nil {
		identities, err = age.ParseIdentities(bytes.NewReader(text))
	}
	if err == nil {
		r, err = repository.Open(ctx, store, identities...)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return r, done, nil
}

// onlyArchive reads the repository's archive; an error if there is none, or another one.
func onlyArchive(ctx context.Context, r *repository.Repository) (*format.Archive, error) {
	ids, err := r.Archives(ctx)
	if err != nil {
		return nil, err
	}
	if len(ids) != 1 {
		return nil, fmt.Errorf("there are %d archives: %v", len(ids), ids)
	}
	return r.Archive(ctx, ids[0])
}

// verifyArchived proves that all volumes of the archive are what their snapshots are, byte by byte.
func (s *scene) verifyArchived(ctx context.Context) error {
	if err := s.succeeds(ctx, s.inRepo("verify")...); err != nil {
		return err
	}
	r, done, err := s.openRepo(ctx)
	if err != nil {
		return err
	}
	defer done()
	a, err := onlyArchive(ctx, r)
	if err != nil {
		return err
	}
	for _, store := range a.Stores {
		for _, v := range store.Volumes {
			if err := s.equalsSnapshot(ctx, r, v); err != nil {
				return fmt.Errorf("store %d %s: %w", store.ID, v.Role, err)
			}
		}
	}
	return s.balanced(ctx)
}

// equalsSnapshot compares an archived volume with the snapshot that it was made of.
func (s *scene) equalsSnapshot(ctx context.Context, r *repository.Repository, v format.Volume) error {
	image, err := s.bed.EC2.Image(cluster.SnapshotID(v.Source))
	if err != nil {
		return err
	}
	is := &blocks{of: map[int64][]byte{}}
	if err := volume.Restore(ctx, r, v, is, 1); err != nil {
		return err
	}
	want := make([]byte, volume.BlockSize)
	for _, index := range image.Allocated(volume.BlockSize) {
		if _, err := image.ReadAt(want, index*volume.BlockSize); err != nil {
			return err
		}
		got, there := is.of[index]
		if delete(is.of, index); there && !bytes.Equal(got, want) || !there && !allZeros(want) {
			return fmt.Errorf("block %d is not the snapshot's", index)
		}
	}
	for index, got := range is.of {
		if !allZeros(got) {
			return fmt.Errorf("block %d has data, and none in the snapshot", index)
		}
	}
	return nil
}

func allZeros(block []byte) bool { return bytes.Count(block, []byte{0}) == len(block) }

// blocks is a volume in memory.
type blocks struct {
	mu sync.Mutex
	of map[int64][]byte
}

// Write implements volume.Target.
func (b *blocks) Write(_ context.Context, index int64, block []byte, _ format.Digest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[index] = bytes.Clone(block)
	return nil
}

// readArchived reads what archives of one backup have in common in all worlds: their volumes' sizes and roles.
func (s *scene) readArchived(ctx context.Context, docs map[string]any) error {
	r, done, err := s.openRepo(ctx)
	if err != nil {
		return err
	}
	defer done()
	a, err := onlyArchive(ctx, r)
	if err != nil {
		return err
	}
	volumes := map[string]int64{}
	for _, store := range a.Stores {
		for _, v := range store.Volumes {
			volumes[fmt.Sprintf("%d/%s", store.ID, v.Role)] = v.Size
		}
	}
	docs["archive"] = map[string]any{"backup": a.Backup, "base": a.Base, "cluster": a.Cluster, "volumes": volumes}
	reports, err := history.Open(s.store).Reports(ctx, cluster.BackupID(s.name))
	if err != nil {
		return err
	}
	s.report = nil
	for _, made := range reports {
		if made.Operation != report.Archive || made.Archived == nil || made.Archived.Repository != r.ID().String() {
			continue
		}
		if s.report != nil {
			return fmt.Errorf("the archive of %s has more than one report", s.name)
		}
		s.report = made
	}
	if s.report == nil {
		return fmt.Errorf("the archive of %s has no report", s.name)
	}
	return nil
}
