package leak

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// completeOrNothing proves that the copy can be restored, or that the storage has no backup of its name that could.
func (c *copies) completeOrNothing(ctx context.Context) error {
	m, err := catalog.Catalog{Store: c.to}.Load(ctx, copied)
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Unready) {
		c.r.Sealed = false
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the copy: %w", err)
	}
	c.r.Sealed = true
	if len(m.Snapshots) != c.r.Snapshots {
		return fmt.Errorf("the copy is sealed with %d snapshots of %d", len(m.Snapshots), c.r.Snapshots)
	}
	of, err := catalog.Catalog{Store: c.from}.Load(ctx, copied)
	if err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	if !reflect.DeepEqual(of.CopyOf, m.CopyOf.CopyOf) {
		return fmt.Errorf("the copy does not name what its source was copied from")
	}
	for _, s := range m.Snapshots {
		if err := c.equal(s); err != nil {
			return fmt.Errorf("the copy is sealed, and snapshot %s of it is wrong: %w", s.ID, err)
		}
	}
	return Copies(ctx, c.route.to, c.to)
}

// equal proves that a copy has the data of its source, and what leads back to it.
func (c *copies) equal(s manifest.Snapshot) error {
	got, image, ok := c.route.to.Snapshot(s.ID)
	want, of := c.images[s.CopiedFrom]
	switch {
	case !ok:
		return fmt.Errorf("it does not exist")
	case got.State != ebs.SnapshotCompleted:
		return fmt.Errorf("it is %s", got.State)
	case !of:
		return fmt.Errorf("it is a copy of %q, which is no snapshot of the source", s.CopiedFrom)
	case got.Tags[ebs.TagCopiedFrom] != string(s.CopiedFrom):
		return fmt.Errorf("it is tagged as a copy of %s, and not of %s", got.Tags[ebs.TagCopiedFrom], s.CopiedFrom)
	case len(image.Changed(want, disk.PageSize)) > 0:
		return fmt.Errorf("it has other data than %s", s.CopiedFrom)
	}
	return nil
}

// Copies proves that an account has in a region exactly the copies that sealed manifests of a storage name.
func Copies(ctx context.Context, ec2 *ebstest.Server, store objstore.Store) error {
	named, err := sealedSnapshots(ctx, store)
	if err != nil {
		return err
	}
	for _, s := range ec2.Snapshots() {
		if s.Tags[ebs.TagCopiedFrom] != "" && !named[s.ID] {
			return fmt.Errorf("copy %s of %s is in no sealed manifest", s.ID, s.Tags[ebs.TagCopiedFrom])
		}
		delete(named, s.ID)
	}
	for id := range named {
		return fmt.Errorf("copy %s is sealed and gone", id)
	}
	return nil
}

// unshared proves that a push has ended what it shared, if it came to its end.
func (c *copies) unshared() error {
	if c.route.pull || !c.r.Sealed {
		return nil
	}
	for _, s := range c.route.from.Snapshots() {
		if slices.Contains(c.route.from.SharedWith(s.ID), c.route.to.Account()) {
			return fmt.Errorf("snapshot %s of the source is still shared with account %s", s.ID, c.route.to.Account())
		}
	}
	return nil
}
