package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Bury replaces a backup's seal by a tombstone: from then on it can be neither restored nor sealed. With onlyUnsealed a
// sealed backup is a Conflict and stays, however the race with its run ends. So does a backup of another run than the
// named one, a later one of the same name; "" matches any. Burying again succeeds.
func (c Catalog) Bury(
	ctx context.Context, id cluster.BackupID, run cluster.RunID, reason string, onlyUnsealed bool,
) error {
	stone, err := manifest.Tombstone(id, reason, time.Now())
	if err != nil {
		return err
	}
	key := manifest.SealKey(id)
	seal, version, err := c.Store.Get(ctx, key)
	switch {
	case failure.Is(err, failure.NotFound):
		if err = c.claimedBy(ctx, id, run); err == nil {
			_, err = c.Store.Create(ctx, key, stone)
		}
	case err != nil:
	case manifest.DecodeTombstone(seal) != nil:
		return nil
	case onlyUnsealed:
		return sealedMeanwhile(seal, id, run)
	default:
		if err = sealedBy(seal, id, run); err == nil {
			_, err = c.Store.Replace(ctx, key, stone, version)
		}
	}
	if err == nil {
		return nil
	}
	// The answer may be lost, or another process was first.
	stored, _, readErr := c.Store.Get(ctx, key)
	switch {
	case readErr == nil && manifest.DecodeTombstone(stored) != nil:
		return nil
	case readErr == nil && onlyUnsealed:
		return sealedMeanwhile(stored, id, run)
	}
	return failure.Annotate(err, "bury backup", string(id))
}

// claimedBy returns a Conflict if another run has claimed the backup. A missing or unreadable claim names none.
func (c Catalog) claimedBy(ctx context.Context, id cluster.BackupID, run cluster.RunID) error {
	if run == "" {
		return nil
	}
	claim, err := c.readClaim(ctx, id)
	switch {
	case failure.Is(err, failure.NotFound), failure.Is(err, failure.Corrupt):
		return nil
	case err != nil:
		return err
	case claim.Run != run:
		return ofAnotherRun(id, claim.Run, run)
	}
	return nil
}

// sealedBy returns a Conflict if another run sealed the backup. An unreadable seal names none.
func sealedBy(seal []byte, id cluster.BackupID, run cluster.RunID) error {
	if s, err := manifest.DecodeSeal(seal); err == nil && run != "" && s.Run != run {
		return ofAnotherRun(id, s.Run, run)
	}
	return nil
}

func ofAnotherRun(id cluster.BackupID, got, want cluster.RunID) error {
	return failure.New(failure.Conflict, "", string(id),
		"another backup now has that name: of run %s, not %s", got, want).
		WithHint("check it with `tisnap describe %s`, and run the command again", id)
}

func sealedMeanwhile(seal []byte, id cluster.BackupID, run cluster.RunID) error {
	if err := sealedBy(seal, id, run); err != nil {
		return err
	}
	return failure.New(failure.Conflict, "bury backup", string(id), "it is sealed").
		WithHint("remove it with: tisnap delete %s", id)
}

// Buried reports whether a tombstone has replaced the backup's seal.
func (c Catalog) Buried(ctx context.Context, id cluster.BackupID) (bool, error) {
	seal, _, err := c.Store.Get(ctx, manifest.SealKey(id))
	if failure.Is(err, failure.NotFound) {
		return false, nil
	}
	return err == nil && manifest.DecodeTombstone(seal) != nil, failure.Annotate(err, "check for a tombstone",
		string(id))
}

// Remove deletes all objects of a backup, including br's, the tombstone last, so that a partly removed backup stays
// buried. The snapshots must be deleted first. A backup without a seal is buried first; a sealed one, or one of another
// run than the named one, is a Conflict and stays. Removing a missing backup succeeds.
//
// No lock separates two removals of a backup, and the name is free once one is done: the other, if suspended meanwhile,
// must not touch the next backup of that name. The name cannot be claimed while the tombstone exists, so each object is
// deleted only in the version that it had beside the tombstone, and only while that exists. If S3 does not compare
// versions, a request in flight may still arrive late.
func (c Catalog) Remove(ctx context.Context, id cluster.BackupID, run cluster.RunID) error {
	if err := manifest.CheckID(id); err != nil {
		return err
	}
	found, err := c.Store.List(ctx, manifest.BackupPrefix(id))
	if err == nil && len(found) > 0 {
		if err = c.Bury(ctx, id, run, "removed", true); err == nil {
			err = c.removeBuried(ctx, id, run)
		}
	}
	return failure.Annotate(err, "remove backup", string(id))
}

func (c Catalog) removeBuried(ctx context.Context, id cluster.BackupID, run cluster.RunID) error {
	seal, stone, err := c.Store.Get(ctx, manifest.SealKey(id))
	switch {
	case failure.Is(err, failure.NotFound):
		return nil // another removal was faster
	case err != nil:
		return err
	case manifest.DecodeTombstone(seal) == nil:
		return sealedMeanwhile(seal, id, run)
	}
	doomed, err := c.removalOrder(ctx, id, stone)
	if err != nil {
		return err
	}
	forBR, err := c.madeForBR(ctx, id)
	if err != nil {
		return err
	}
	if err := c.claimedBy(ctx, id, run); err != nil {
		return err
	}
	doomed = append(forBR, doomed...)
	for _, o := range doomed {
		there, err := c.hasStone(ctx, id, stone)
		if err == nil && there {
			err = c.Store.DeleteVersion(ctx, o.Key, o.Version)
		}
		if failure.Is(err, failure.Conflict) {
			there, err = c.hasStone(ctx, id, stone)
			if there {
				err = failure.New(failure.Conflict, "", "", "%s was written meanwhile", o.Key).WithHint("run it again")
			}
		}
		if !there || err != nil {
			return err
		}
	}
	return nil
}

// hasStone reports whether this tombstone still exists: if not, another removal has finished.
func (c Catalog) hasStone(ctx context.Context, id cluster.BackupID, stone objstore.Version) (bool, error) {
	_, version, err := c.Store.Get(ctx, manifest.SealKey(id))
	if failure.Is(err, failure.NotFound) {
		return false, nil
	}
	return err == nil && version == stone, err
}

// removalOrder puts the identifying objects after the rest, and the tombstone last, whether or not a listing shows them
// yet.
func (c Catalog) removalOrder(
	ctx context.Context, id cluster.BackupID, stone objstore.Version,
) ([]objstore.Object, error) {
	listed, err := c.Store.List(ctx, manifest.BackupPrefix(id))
	if err != nil {
		return nil, err
	}
	var out, last []objstore.Object
	for _, key := range []string{manifest.ManifestKey(id), manifest.ClaimKey(id)} {
		i := slices.IndexFunc(listed, func(o objstore.Object) bool { return o.Key == key })
		if i >= 0 {
			last = append(last, listed[i])
			continue
		}
		_, version, err := c.Store.Get(ctx, key)
		if err == nil {
			last = append(last, objstore.Object{Key: key, Version: version})
		} else if !failure.Is(err, failure.NotFound) {
			return nil, err
		}
	}
	last = append(last, objstore.Object{Key: manifest.SealKey(id), Version: stone})
	for _, o := range listed {
		if !slices.ContainsFunc(last, func(l objstore.Object) bool { return l.Key == o.Key }) {
			out = append(out, o)
		}
	}
	return append(out, last...), nil
}
