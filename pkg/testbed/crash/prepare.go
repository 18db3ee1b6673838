package crash

import (
	"context"
	"fmt"
	"syscall"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
)

// prepare makes what the run works on: for a resolve a cluster in recovery mode whose restore was killed, for a delete and
// a lock a backup, for a prune a backup and a newer one, for a restore from an archive that, and for an adoption the parts.
func (s *scene) prepare(ctx context.Context) error {
	switch s.run {
	case Resolve, Resolve2:
		return s.killedRestore(ctx)
	case Prune:
		if err := s.succeeds(ctx, s.backupArgs(s.name)...); err != nil {
			return err
		}
		return s.succeeds(ctx, s.backupArgs(s.newer())...)
	case Archive:
		return s.initRepo(ctx)
	case RestoreArchive, RestoreVolumes:
		if err := s.initRepo(ctx); err != nil {
			return err
		}
		if err := s.putSecret(); err != nil {
			return err
		}
		return s.succeeds(ctx, s.inRepo("create", s.name)...)
	case ArchivePrune, ArchiveForget, ArchiveRotate, ArchiveRepair, ArchiveVerify:
		return s.makeArchives(ctx)
	case Copy, Adopt:
		return s.openOwn(ctx)
	case Delete, Lock:
		return s.succeeds(ctx, s.backupArgs(s.name)...)
	default:
		return nil
	}
}

// newer is the backup that a prune keeps.
func (s *scene) newer() string { return s.name + "-newer" }

// killedRestore kills a restore right before its data are read.
func (s *scene) killedRestore(ctx context.Context) error {
	t := NewTrap(Cell{Step: "collect", Position: BeforeEffect}, func(sig syscall.Signal) { s.program.Signal(sig) })
	s.faults.Watch(t.Watch)
	code, err := s.tisnap(ctx, s.restoreArgs(s.name, s.target)...)
	s.faults.Watch(nil)
	switch {
	case err != nil:
		return err
	case !t.Hit():
		return fmt.Errorf("the restore was not killed: it ended with %d", code)
	}
	return s.expire(ctx, s.target)
}

// verifyDeleted proves that the backup is gone, and the others are there.
func (s *scene) verifyDeleted(ctx context.Context) error {
	c := catalog.Catalog{Store: s.store}
	entries, err := c.List(ctx)
	if err != nil {
		return err
	}
	want := map[cluster.BackupID]bool{baseline: true}
	if s.run == Prune {
		want[cluster.BackupID(s.newer())] = true
	}
	for _, e := range entries {
		if !want[e.ID] || e.State != catalog.StateSealed {
			return fmt.Errorf("backup %s is there, and is %s", e.ID, e.State)
		}
		delete(want, e.ID)
	}
	if len(want) > 0 {
		return fmt.Errorf("backups are gone: %v", want)
	}
	if err := s.balanced(ctx); err != nil {
		return err
	}
	if s.run == Prune {
		return s.succeeds(ctx, "delete", s.newer(), "--yes", "--delete-rate", "100")
	}
	return nil
}
