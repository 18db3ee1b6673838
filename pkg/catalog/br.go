package catalog

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// brMarkers are the files that mean that br made a backup in a prefix: the Operator's clustermeta does not.
func brMarkers() []string { return []string{manifest.BRBackupMeta, manifest.BRLock} }

// CheckFreeForBR is CheckFree in a prefix that TiDB Operator made for br: its clustermeta does not count as used.
// A backupmeta does, and so does br's lock.
func (c Catalog) CheckFreeForBR(ctx context.Context, id cluster.BackupID) error {
	return c.checkFree(ctx, id, brMarkers())
}

// ClaimForBR is Claim in such a prefix.
func (c Catalog) ClaimForBR(ctx context.Context, claim Claim) error {
	return c.claim(ctx, claim, brMarkers())
}

// LockForBR marks the prefix as used, as br does, by an object that says by whom. Of several that lock it, one succeeds
// and the others are Conflict; locking it again for the same run succeeds.
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

// UnlockForBR makes the prefix free for another run, if it is this run's. Idempotent.
func (c Catalog) UnlockForBR(ctx context.Context, run cluster.RunID) error {
	held, err := c.HolderForBR(ctx)
	if err != nil || held == nil || held.Run != run {
		return err // nobody's, or somebody else's
	}
	return failure.Annotate(c.Store.Delete(ctx, manifest.BRLock), "unlock prefix", c.Store.URL())
}

// HolderForBR is who locked the prefix by LockForBR; nil if nobody did, or br itself, whose lock is text.
func (c Catalog) HolderForBR(ctx context.Context) (*Claim, error) {
	body, _, err := c.Store.Get(ctx, manifest.BRLock)
	if failure.Is(err, failure.NotFound) {
		return nil, nil //nolint:nilnil // as the comment says
	}
	if err != nil {
		return nil, failure.Annotate(err, "read lock of the prefix", c.Store.URL())
	}
	held := new(Claim)
	if json.Unmarshal(body, held) != nil || held.Run == "" || manifest.CheckID(held.ID) != nil {
		return nil, nil //nolint:nilnil // br's own
	}
	return held, nil
}

// PutForBR writes br's document of the backup where br and TiDB Operator look for it: what the Operator put into
// m.ClusterMeta, filled in. One of another backup is a Conflict and stays; writing the same again succeeds.
func (c Catalog) PutForBR(ctx context.Context, m *manifest.Manifest) error {
	doc, err := manifest.BackupMeta(m)
	if err != nil {
		return err
	}
	return c.createOnce(ctx, manifest.BRBackupMeta, doc)
}

// ForgetForBR deletes br's document of a backup whose run failed: it names snapshots that are deleted. One of another run
// stays. Idempotent.
func (c Catalog) ForgetForBR(ctx context.Context, id cluster.BackupID, run cluster.RunID) error {
	held, err := c.HolderForBR(ctx)
	if err != nil {
		return err
	}
	if held != nil && held.Run == run {
		return c.Store.Delete(ctx, manifest.BRBackupMeta) // the run has the prefix: no one else wrote it
	}
	return c.removeMeta(ctx, id)
}

// removeMeta deletes the backupmeta at the root if it is that of the backup.
func (c Catalog) removeMeta(ctx context.Context, id cluster.BackupID) error {
	own, _, err := c.Store.Get(ctx, manifest.BackupMetaKey(id))
	if err == nil {
		var root []byte
		if root, _, err = c.Store.Get(ctx, manifest.BRBackupMeta); err == nil && bytes.Equal(root, own) {
			err = c.Store.Delete(ctx, manifest.BRBackupMeta)
		}
	}
	if failure.Is(err, failure.NotFound) {
		return nil
	}
	return err
}

// removeForBR deletes what a backup wrote at the root of the prefix. What another one wrote there, or br, stays.
func (c Catalog) removeForBR(ctx context.Context, id cluster.BackupID) error {
	if err := c.removeMeta(ctx, id); err != nil {
		return err
	}
	claim, err := c.readClaim(ctx, id)
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Corrupt) {
		return nil // nobody knows whose the prefix is
	}
	if err != nil {
		return err
	}
	return c.UnlockForBR(ctx, claim.Run)
}

// createOnce creates an object. If an answer was lost, or this is another try, the same content is a success.
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
