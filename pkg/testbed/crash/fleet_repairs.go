package crash

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/format"
)

const (
	// fleetRepairs repair at the same time.
	fleetRepairs = 2
	exitCorrupt  = 10
)

// repairs damages archives, and repairs them by two commands at a time, beside a prune.
func (f *fleet) repairs(ctx context.Context) error {
	if err := f.damage(ctx); err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	for range fleetRepairs {
		all.Go(func() error { return f.repair(ctx) })
	}
	all.Go(func() error {
		if err := f.age(ctx); err != nil {
			return err
		}
		_, err := f.run(ctx, []int{0, exitConflict, exitCorrupt}, "prune", "--yes", "--min-age", "0s", "--break-leases-after", "2h")
		return err
	})
	return all.Wait()
}

// damage loses a map, and a pack that another map refers to, of archives whose snapshots exist.
func (f *fleet) damage(ctx context.Context) error {
	ids, err := f.repo.Archives(ctx)
	if err != nil {
		return err
	}
	var maps []format.SegmentName
	for _, id := range ids {
		a, err := f.repo.Archive(ctx, id)
		if err != nil {
			return err
		}
		for _, store := range a.Stores {
			for _, v := range store.Volumes {
				if v.Source != "" {
					maps = append(maps, v.Segments...)
				}
			}
		}
	}
	if len(maps) == 0 {
		return nil
	}
	s, err := f.repo.Segment(ctx, maps[f.random(len(maps))])
	if err != nil {
		return err
	}
	for _, place := range s {
		if place.State == format.Saved {
			if err := f.repo.Objects().Delete(ctx, place.Pack.Name.Path()); err != nil {
				return err
			}
			break
		}
	}
	return f.repo.Objects().Delete(ctx, maps[f.random(len(maps))].Path())
}

// repair repairs by the same command until it ends with 0.
func (f *fleet) repair(ctx context.Context) error {
	for range tries {
		if code, err := f.run(ctx, []int{0, exitConflict}, "repair", "--from-snapshots"); code == 0 || err != nil {
			return err
		}
	}
	return fmt.Errorf("a repair did not end with 0 in %d tries", tries)
}
