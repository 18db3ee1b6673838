package crash

import (
	"context"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	identity "github.com/tisnap/tisnap/pkg/storage"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
)

// lockedUntil is far behind the testbed's clock.
const lockedUntil = "2040-01-01T00:00:00Z"

// url is the storage of the scene's own, which a copy or an adoption fills.
func (s *scene) url() string { return fmt.Sprintf("s3://%s/crash-%s-%d", testbed.Bucket, s.run, s.n) }

// openOwn opens that storage, and makes the parts of an adoption.
func (s *scene) openOwn(ctx context.Context) (err error) {
	if s.store, err = s.openAt(ctx, s.url()); err != nil || s.run != Adopt {
		return err
	}
	return s.createParts(ctx)
}

func (s *scene) openAt(ctx context.Context, url string) (objstore.Store, error) {
	return objstore.Open(ctx, url, objstore.Config{Region: testbed.Region, Endpoint: s.bed.AWS()})
}

func (s *scene) copyArgs() []string {
	return []string{
		"copy", s.name, "--storage", storage, "--to-storage", s.url(), "--to-region", testbed.AwayRegion, "--role-arn", s.vaultRole(),
		"--stuck", "3m",
	}
}

func (s *scene) vaultRole() string { return s.bed.Vault.AddRole("crash", "") }

// onOwn is a command on what the run has made.
func (s *scene) onOwn(args ...string) []string {
	switch s.run {
	case Copy:
		return append(args, "--storage", s.url(), "--region", testbed.AwayRegion, "--ebs-role-arn", s.vaultRole())
	case Adopt:
		return append(args, "--storage", s.url())
	default:
		return args
	}
}

// gc collects what dead runs have left where the run makes something.
func (s *scene) gc(ctx context.Context) error {
	return s.succeeds(ctx, s.onOwn("gc", "--yes", "--older-than", "0s", "--delete-rate", "100")...)
}

// known is leak.Known, in both accounts.
func (s *scene) known(ctx context.Context) error {
	err := leak.Known(ctx, s.bed.EC2, s.world.store)
	if err == nil && s.run == Copy {
		err = leak.Known(ctx, s.bed.Vault, s.store)
	}
	return err
}

// locksEnd ends the lock of the run that was killed, and the lease that a copy has on its source, as time does.
func (s *scene) locksEnd(ctx context.Context) error {
	if s.run.inRepository() {
		return s.leasesEnd(ctx)
	}
	if err := expire(ctx, s.store, s.locked()); err != nil || s.run != Copy {
		return err
	}
	to, err := identity.Read(ctx, s.store)
	if failure.Is(err, failure.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return expire(ctx, s.world.store, journal.UseLock(source, to.ID))
}

// readCopied reads of what each copy is, and the report.
func (s *scene) readCopied(ctx context.Context, docs map[string]any) error {
	m, err := catalog.Catalog{Store: s.store}.Load(ctx, cluster.BackupID(s.name))
	if err != nil {
		return err
	}
	of := map[string]any{}
	for _, snap := range m.Snapshots {
		of[string(snap.CopiedFrom)] = map[string]any{"role": snap.Role, "volume": snap.Volume, "size": snap.SizeGiB}
	}
	docs["copies"] = map[string]any{"of": of, "region": m.Region, "marks": m.Marks != nil, "parts": len(m.Parts)}
	reports, err := history.Open(s.store).Reports(ctx, m.ID)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(reports, func(r *report.Report) bool { return r.Operation == report.Copy && r.Run == m.Run })
	if i < 0 {
		return fmt.Errorf("the copy of %s has no report", m.ID)
	}
	s.report = reports[i]
	return nil
}

// verifyCopied proves that the copy has the data of its source, that nothing else was copied or is still shared, and
// deletes it.
func (s *scene) verifyCopied(ctx context.Context) error {
	m, err := catalog.Catalog{Store: s.store}.Load(ctx, cluster.BackupID(s.name))
	if err != nil {
		return err
	}
	for _, snap := range m.Snapshots {
		want, err := s.bed.EC2.Image(snap.CopiedFrom)
		if err != nil {
			return err
		}
		got, err := s.bed.Vault.Image(snap.ID)
		if err != nil {
			return err
		}
		if len(got.Changed(want, disk.PageSize)) > 0 {
			return fmt.Errorf("%s has other data than %s", snap.ID, snap.CopiedFrom)
		}
		if with := s.bed.EC2.SharedWith(snap.CopiedFrom); len(with) > 0 {
			return fmt.Errorf("%s is still shared with %v", snap.CopiedFrom, with)
		}
	}
	if err := leak.Copies(ctx, s.bed.Vault, s.store); err != nil {
		return err
	}
	if err := s.succeeds(ctx, s.onOwn("delete", s.name, "--yes", "--last", "--delete-rate", "100")...); err != nil {
		return err
	}
	if left := s.bed.Vault.Snapshots(); len(left) > 0 {
		return fmt.Errorf("%d copies are left", len(left))
	}
	return s.balanced(ctx)
}

// locks are those of the backup's snapshots.
func (s *scene) locks(ctx context.Context) ([]ebs.SnapshotLock, error) {
	m, err := catalog.Catalog{Store: s.store}.Load(ctx, cluster.BackupID(s.name))
	if err != nil {
		return nil, err
	}
	client, err := ebs.Open(ctx, ebs.Config{Region: testbed.Region, Endpoint: s.bed.AWS()})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	locks, err := client.SnapshotLocks(ctx, m.SnapshotIDs())
	if err == nil && len(locks) != len(m.Snapshots) {
		err = fmt.Errorf("%d of %d snapshots are locked", len(locks), len(m.Snapshots))
	}
	return locks, err
}

func (s *scene) readLocked(ctx context.Context, docs map[string]any) error {
	locks, err := s.locks(ctx)
	var of []any
	for _, l := range locks {
		of = append(of, map[string]any{"mode": l.Mode, "until": l.ExpiresAt.UTC()})
	}
	docs["locks"] = of
	return err
}

// verifyLocked proves that all snapshots are locked until the date, and that they can be unlocked and deleted.
func (s *scene) verifyLocked(ctx context.Context) error {
	locks, err := s.locks(ctx)
	if err != nil {
		return err
	}
	for _, l := range locks {
		if l.Mode != ebs.LockGovernance || l.ExpiresAt.UTC().Format("2006-01-02T15:04:05Z") != lockedUntil {
			return fmt.Errorf("%s is locked in mode %s until %s", l.Snapshot, l.Mode, l.ExpiresAt)
		}
	}
	if err := s.succeeds(ctx, "unlock", s.name, "--yes"); err != nil {
		return err
	}
	if err := s.succeeds(ctx, "delete", s.name, "--yes", "--delete-rate", "100"); err != nil {
		return err
	}
	return s.balanced(ctx)
}
