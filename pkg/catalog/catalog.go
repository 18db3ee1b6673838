package catalog

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Catalog is the set of backups in a store. It is stateless: every call reads the store.
type Catalog struct {
	Store objstore.Store
	// SignKey signs what Seal seals; nil seals without a signature.
	SignKey *manifest.SigningKey
	// VerifyKey is the key that must have signed a backup for Load; nil accepts signed and unsigned ones.
	VerifyKey *manifest.VerifyKey
}

// Claim takes a backup id for a run. It is written before anything else of the backup.
type Claim struct {
	ID        cluster.BackupID `json:"id"`
	Run       cluster.RunID    `json:"run"`
	Cluster   cluster.Name     `json:"cluster"`
	ClaimedAt time.Time        `json:"claimedAt"`
}

// CheckFree reports whether a backup with this id could be made here, without changing anything. It returns a Conflict
// if the id is taken or br used the prefix, and Usage if the id is invalid.
func (c Catalog) CheckFree(ctx context.Context, id cluster.BackupID) error {
	return c.checkFree(ctx, id, manifest.BRMarkers())
}

func (c Catalog) checkFree(ctx context.Context, id cluster.BackupID, markers []string) error {
	if err := manifest.CheckID(id); err != nil {
		return err
	}
	if err := c.refuse(ctx, id, markers); err != nil {
		return err
	}
	found, err := c.Store.List(ctx, manifest.BackupPrefix(id))
	if err != nil {
		return failure.Annotate(err, "check backup id", string(id))
	}
	if len(found) > 0 {
		return c.taken(ctx, id)
	}
	return nil
}

// Claim does CheckFree and takes the id: of concurrent claims one succeeds and the others return a Conflict. Claiming
// again for the same run succeeds, so that a run can be resumed.
func (c Catalog) Claim(ctx context.Context, claim Claim) error {
	return c.claim(ctx, claim, manifest.BRMarkers())
}

func (c Catalog) claim(ctx context.Context, claim Claim, markers []string) error {
	if err := manifest.CheckID(claim.ID); err != nil {
		return err
	}
	held, err := c.readClaim(ctx, claim.ID)
	switch {
	case err == nil && held.Run == claim.Run:
		return nil
	case err == nil:
		return c.taken(ctx, claim.ID)
	case !failure.Is(err, failure.NotFound):
		return err
	}
	if err := c.refuse(ctx, claim.ID, markers); err != nil {
		return err
	}
	found, err := c.Store.List(ctx, manifest.BackupPrefix(claim.ID))
	if err != nil {
		return failure.Annotate(err, "claim backup", string(claim.ID))
	}
	if len(found) > 0 {
		return c.taken(ctx, claim.ID)
	}
	return c.writeClaim(ctx, claim)
}

// writeClaim reads back after any error: a lost answer, or our own earlier try, is a success.
func (c Catalog) writeClaim(ctx context.Context, claim Claim) error {
	body, err := json.MarshalIndent(claim, "", "  ")
	if err != nil {
		return failure.Wrap(err, failure.Unknown, "claim backup", string(claim.ID))
	}
	_, err = c.Store.Create(ctx, manifest.ClaimKey(claim.ID), body)
	if err == nil {
		return nil
	}
	if held, readErr := c.readClaim(ctx, claim.ID); readErr == nil {
		if held.Run == claim.Run {
			return nil
		}
		return c.taken(ctx, claim.ID)
	}
	return failure.Annotate(err, "claim backup", string(claim.ID))
}

func (c Catalog) readClaim(ctx context.Context, id cluster.BackupID) (*Claim, error) {
	body, _, err := c.Store.Get(ctx, manifest.ClaimKey(id))
	if err != nil {
		return nil, failure.Annotate(err, "read claim", string(id))
	}
	claim := new(Claim)
	if err := json.Unmarshal(body, claim); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "read claim", string(id))
	}
	return claim, nil
}

// RunOf is the run that made the backup, or is about to; NotFound if there is none.
func (c Catalog) RunOf(ctx context.Context, id cluster.BackupID) (cluster.RunID, error) {
	claim, err := c.readClaim(ctx, id)
	if err != nil {
		return "", err
	}
	return claim.Run, nil
}

func (c Catalog) refuse(ctx context.Context, id cluster.BackupID, markers []string) error {
	for _, marker := range markers {
		_, _, err := c.Store.Get(ctx, marker)
		switch {
		case err == nil:
			return c.usedByBR(ctx, id, marker)
		case !failure.Is(err, failure.NotFound):
			return failure.Annotate(err, "claim backup", string(id))
		}
	}
	return nil
}

// taken names the remedy: a backup that is not sealed may be of a dead run, and then only its name is in the way.
func (c Catalog) taken(ctx context.Context, id cluster.BackupID) error {
	err := failure.New(failure.Conflict, "claim backup", string(id), "a backup of this name exists in %s",
		c.Store.URL())
	seal, _, readErr := c.Store.Get(ctx, manifest.SealKey(id))
	if failure.Is(readErr, failure.NotFound) || readErr == nil && manifest.DecodeTombstone(seal) != nil {
		return err.WithHint(
			"choose another --name; or, once its run is over, free this one: tisnap delete %s", id)
	}
	return err.WithHint("choose another --name; `tisnap list` shows the taken ones")
}
