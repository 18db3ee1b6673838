package archivebench

import (
	"context"
	"fmt"
	"os"
	"time"

	"filippo.io/age"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Chunks that are read at the same time, and packers, for two cores.
const (
	chunks  = 4
	packers = 2
)

// InitImages makes a repository in a folder, whose key is in a file beside it.
func InitImages(ctx context.Context, repo string) error {
	store, err := folder(ctx, repo)
	if err != nil {
		return err
	}
	_, owner, err := archivetest.New(ctx, store, repository.DefaultPackSize)
	if err != nil {
		return err
	}
	return os.WriteFile(repo+".key", []byte(owner.String()), 0o600)
}

// CreateImage archives the image of a volume under this id, against the base's map if there is a base.
func CreateImage(ctx context.Context, repo, image, id, base string, level codec.Level) (volume.Stats, error) {
	var stats volume.Stats
	r, err := openImages(ctx, repo)
	if err != nil {
		return stats, err
	}
	in, err := volume.OpenFile(image)
	if err != nil {
		return stats, err
	}
	defer in.Close()
	var against volume.Base
	if base != "" {
		a, err := r.Archive(ctx, base)
		if err != nil {
			return stats, err
		}
		against.Segments = a.Stores[0].Volumes[0].Segments
	}
	packing := r.Pack(ctx, repository.PackOptions{
		Source: format.Source{Archive: id}, Names: format.NewPackNames(), Level: level, Packers: packers, Way: r.Way(),
	})
	archiver, err := volume.NewArchiver(r, packing, packers, chunks)
	if err != nil {
		return stats, err
	}
	v, stats, err := archiver.Archive(ctx, volume.Task{Source: in, Base: against})
	if err != nil {
		return stats, err
	}
	if err := archiver.Flush(); err != nil {
		return stats, err
	}
	if err := packing.Wait(); err != nil {
		return stats, err
	}
	v.Role, v.Source = "data", image
	return stats, r.Commit(ctx, id, &format.Archive{
		Created: time.Now().UTC(), Base: base, Manifest: format.NewManifest(nil),
		Stores: []format.Store{{ID: 1, Volumes: []format.Volume{v}}},
	})
}

// RestoreImage writes the archive with this id to a new file.
func RestoreImage(ctx context.Context, repo, out, id string) error {
	r, err := openImages(ctx, repo)
	if err != nil {
		return err
	}
	a, err := r.Archive(ctx, id)
	if err != nil {
		return err
	}
	v := a.Stores[0].Volumes[0]
	return volume.WriteFile(ctx, r, v, out, chunks, func(int64) {})
}

func folder(ctx context.Context, path string) (objstore.Store, error) {
	return objstore.Open(ctx, "file://"+path, objstore.Config{})
}

func openImages(ctx context.Context, repo string) (*repository.Repository, error) {
	key, err := os.ReadFile(repo + ".key")
	if err != nil {
		return nil, err
	}
	owner, err := age.ParseX25519Identity(string(key))
	if err != nil {
		return nil, fmt.Errorf("%s.key: %w", repo, err)
	}
	store, err := folder(ctx, repo)
	if err != nil {
		return nil, err
	}
	return repository.Open(ctx, store, owner)
}
