package catalog

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// brMarkers are the files that show that br made a backup in a prefix; the Operator's clustermeta is not one.
func brMarkers() []string {
	return []string{manifest.BRBackupMeta, manifest.BRLock, manifest.BRCutMeta}
}

// CheckFreeForBR is CheckFree for a prefix that TiDB Operator prepared for br: its clustermeta does not count as use,
// but a backupmeta or br's lock does.
func (c Catalog) CheckFreeForBR(ctx context.Context, id cluster.BackupID) error {
	return c.checkFree(ctx, id, brMarkers())
}

// ClaimForBR is Claim for such a prefix.
func (c Catalog) ClaimForBR(ctx context.Context, claim Claim) error {
	return c.claim(ctx, claim, brMarkers())
}

// LockForBR marks the prefix as used, as br does, with an object that names the user. Of concurrent calls one succeeds
// and the others return a Conflict; locking again for the same run succeeds.
func (c Catalog) LockForBR(ctx context.Context, claim Claim) error {
	body, err := json.MarshalIndent(claim, "", "  ")
	if err != nil {
		return failure.Wrap(err, failure.Unknown, "lock prefix", string(claim.ID))
	}
	err = c.createOnce(ctx, manifest.BRLock, body)
	if failure.Is(err, failure.Conflict) {
		if held, readErr := c.HolderForBR(ctx); readErr == nil && held != nil && held.Run == claim.Run {
			return nil // an earlier process of the run wrote it, at another time
		}
	}
	return err
}

// UnlockForBR frees the prefix for another run, if this run has it. Idempotent.
func (c Catalog) UnlockForBR(ctx context.Context, run cluster.RunID) error {
	held, version, err := c.holderForBR(ctx)
	if err != nil || held == nil || held.Run != run {
		return err // unlocked, or another run's
	}
	err = c.Store.DeleteVersion(ctx, manifest.BRLock, version)
	if failure.Is(err, failure.Conflict) {
		return nil // another run's by now
	}
	return failure.Annotate(err, "unlock prefix", c.Store.URL())
}

// HolderForBR returns who locked the prefix with LockForBR; nil if no run did, or br itself, whose lock is plain text.
func (c Catalog) HolderForBR(ctx context.Context) (*Claim, error) {
	held, _, err := c.holderForBR(ctx)
	return held, err
}

func (c Catalog) holderForBR(ctx context.Context) (*Claim, objstore.Version, error) {
	body, version, err := c.Store.Get(ctx, manifest.BRLock)
	if failure.Is(err, failure.NotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", failure.Annotate(err, "read lock of the prefix", c.Store.URL())
	}
	held := new(Claim)
	ours := json.Unmarshal(body, held) == nil && held.Run != "" && manifest.CheckID(held.ID) == nil
	if !ours { // br's own lock is plain text
		return nil, "", nil
	}
	return held, version, nil
}

// PutForBR writes br's document of the backup where br and TiDB Operator expect it: the Operator's m.ClusterMeta,
// filled in. Another backup's document is a Conflict and stays; writing the same again succeeds.
func (c Catalog) PutForBR(ctx context.Context, m *manifest.Manifest) error {
	doc, err := manifest.BackupMeta(m)
	if err != nil {
		return err
	}
	if err := c.createOnce(ctx, manifest.BRBackupMeta, doc); err != nil {
		// An S3 storage backed by a file system cannot store an object where a folder exists.
		if forgotten := c.ForgetCutForBR(ctx, m.Run); forgotten != nil {
			return err
		}
		return c.createOnce(ctx, manifest.BRBackupMeta, doc)
	}
	_ = c.ForgetCutForBR(ctx, m.Run) // redundant beside a backupmeta, which names the same snapshots
	return nil
}

// ForgetForBR deletes br's document of a failed run's backup, which names deleted snapshots. Another run's document
// stays. Idempotent.
func (c Catalog) ForgetForBR(ctx context.Context, id cluster.BackupID, run cluster.RunID) error {
	held, err := c.HolderForBR(ctx)
	if err != nil {
		return err
	}
	if held != nil && held.Run == run {
		doc, version, err := c.Store.Get(ctx, manifest.BRBackupMeta)
		if failure.Is(err, failure.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		// until its snapshots are deleted; otherwise only gc would find those of a run killed now
		_ = c.putCut(ctx, doc)
		// the run has the prefix, so no other run wrote it
		return c.Store.DeleteVersion(ctx, manifest.BRBackupMeta, version)
	}
	return c.removeMeta(ctx, id)
}

// removeMeta deletes the backupmeta at the root if it belongs to the backup.
func (c Catalog) removeMeta(ctx context.Context, id cluster.BackupID) error {
	own, _, err := c.Store.Get(ctx, manifest.BackupMetaKey(id))
	if err == nil {
		var root []byte
		var version objstore.Version
		if root, version, err = c.Store.Get(ctx, manifest.BRBackupMeta); err == nil && bytes.Equal(root, own) {
			err = c.Store.DeleteVersion(ctx, manifest.BRBackupMeta, version)
		}
	}
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Conflict) {
		return nil // another one's by now
	}
	return err
}

// madeForBR returns what a backup wrote at the root of the prefix, excluding what others, or br, wrote there.
func (c Catalog) madeForBR(ctx context.Context, id cluster.BackupID) ([]objstore.Object, error) {
	var out []objstore.Object
	own, _, err := c.Store.Get(ctx, manifest.BackupMetaKey(id))
	if err == nil {
		root, version, rootErr := c.Store.Get(ctx, manifest.BRBackupMeta)
		if err = rootErr; err == nil && bytes.Equal(root, own) {
			out = append(out, objstore.Object{Key: manifest.BRBackupMeta, Version: version})
		}
	}
	if err != nil && !failure.Is(err, failure.NotFound) {
		return nil, err
	}
	claim, err := c.readClaim(ctx, id)
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Corrupt) {
		return out, nil // the prefix has no known owner
	}
	if err != nil {
		return nil, err
	}
	held, version, err := c.holderForBR(ctx)
	if err != nil || held == nil || held.Run != claim.Run {
		return out, err
	}
	cut, err := c.cutOf(ctx, claim.Run)
	if cut != nil {
		out = append(out, *cut)
	}
	return append(out, objstore.Object{Key: manifest.BRLock, Version: version}), err
}

// createOnce creates an object. After a lost answer or a retry, identical content is a success.
func (c Catalog) createOnce(ctx context.Context, key string, body []byte) error {
	_, err := c.Store.Create(ctx, key, body)
	if err == nil {
		return nil
	}
	if stored, _, readErr := c.Store.Get(ctx, key); readErr == nil && bytes.Equal(stored, body) {
		return nil
	}
	return failure.Annotate(err, "write", key)
}
