package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// fleetBlocks are random in each snapshot; about a half of them differ between two backups of a cluster.
const fleetBlocks = 24

// fillBackups puts random blocks into the snapshots of a cluster's backups.
func (f *fleet) fillBackups(ctx context.Context, of int) error {
	seeds := map[cluster.VolumeID]*[fleetBlocks][32]byte{}
	for n := range 2 {
		m, err := catalog.Catalog{Store: f.store}.Load(ctx, cluster.BackupID(backupOf(of, n)))
		if err != nil {
			return err
		}
		for _, snap := range m.Snapshots {
			if seeds[snap.Volume] == nil {
				seeds[snap.Volume] = &[fleetBlocks][32]byte{}
			}
			blocks := seeds[snap.Volume]
			for i := range blocks {
				if n == 0 || f.random(2) == 0 {
					for at := range blocks[i] {
						blocks[i][at] = byte(f.random(256))
					}
				}
			}
			if err := f.fillSnapshot(snap.ID, blocks); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillSnapshot adds blocks to what the snapshot has.
func (f *fleet) fillSnapshot(id cluster.SnapshotID, seeds *[fleetBlocks][32]byte) error {
	image, err := f.bed.EC2.Image(id)
	if err != nil {
		return err
	}
	device, block := disk.New(image.Size()), make([]byte, volume.BlockSize)
	for _, at := range image.Allocated(volume.BlockSize) {
		if _, err := image.ReadAt(block, at*volume.BlockSize); err != nil {
			return err
		}
		if _, err := device.WriteAt(block, at*volume.BlockSize); err != nil {
			return err
		}
	}
	last := image.Size()/volume.BlockSize - 1
	for i, seed := range seeds {
		_, _ = rand.NewChaCha8(seed).Read(block) // has no error
		if _, err := device.WriteAt(block, (last-int64(i))*volume.BlockSize); err != nil {
			return err
		}
	}
	return f.bed.EC2.SetImage(id, disk.Cut(device)[0])
}

// age makes all leases look dead.
func (f *fleet) age(ctx context.Context) error {
	aged, err := ageLeases(ctx, f.repo.Objects())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.result.Aged += aged
	return err
}

// settled prunes twice, and proves that all archives are whole and nothing else is left.
func (f *fleet) settled(ctx context.Context) error {
	if err := f.age(ctx); err != nil {
		return err
	}
	quiet := append([]string{"archive", "prune", "--yes", "--min-age", "0s", "--break-leases-after", "2h"}, f.flags...)
	for range 2 {
		if err := f.succeeds(ctx, quiet...); err != nil {
			return err
		}
	}
	report, err := prune.Run(ctx, f.repo, prune.Options{DryRun: true, MinAge: -24 * time.Hour, MaxUnused: 0.1})
	if err != nil {
		return err
	}
	if report.Garbage != (prune.Amount{}) || report.Rewriting.Packs > 0 {
		return fmt.Errorf("after two prunes there is garbage, %+v, or packs to rewrite, %+v", report.Garbage, report.Rewriting)
	}
	for _, prefix := range []string{format.LeasePrefix, format.CondemnedPrefix} {
		left, err := f.repo.Objects().List(ctx, prefix)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("after two prunes there is %v", left)
		}
	}
	if err := f.succeeds(ctx, append([]string{"archive", "verify"}, f.flags...)...); err != nil {
		return err
	}
	return f.whole(ctx)
}

// whole compares each archive, block by block, with the snapshots that it was made of. None is missing.
func (f *fleet) whole(ctx context.Context) error {
	ids, err := f.repo.Archives(ctx)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, id := range ids {
		there[id] = true
		a, err := f.repo.Archive(ctx, id)
		if err != nil {
			return err
		}
		for _, store := range a.Stores {
			for _, v := range store.Volumes {
				if v.Source == "" { // of a shared pack: verify has compared each block with its digest
					continue
				}
				if err := f.equalsSnapshot(ctx, f.repo, v); err != nil {
					return fmt.Errorf("archive %s, store %d %s: %w", id, store.ID, v.Role, err)
				}
			}
		}
	}
	for id := range f.seen {
		if !there[id] && !f.forgotten[id] {
			return fmt.Errorf("archive %s is gone, and was not forgotten", id)
		}
	}
	return nil
}
