package round

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
)

// verify proves the restored cluster. Each check is on its own, so that a failure names all that is wrong.
func (s *state) verify(ctx context.Context) error {
	c := s.bed.Nodes.Cluster(target)
	if c == nil {
		return errors.New("the restored cluster is not there")
	}
	return errors.Join(s.verifyRestore(ctx), s.verifyRows(ctx, c), s.verifyPD(c), s.verifyRegions(c), s.verifyReplicas(ctx, c), s.verifyVolumes())
}

// verifyRestore reads the restore's own result: a warning means that the copy was not as it should be,
// even if the rows came out right this time.
func (s *state) verifyRestore(ctx context.Context) error {
	if s.run == nil {
		return nil // the driver has seen how it ended
	}
	doc, err := s.described(ctx)
	if err != nil {
		return err
	}
	if doc.SealedAt.IsZero() || doc.Report == nil || doc.Report.Hold == nil {
		return errors.New("the backup is not sealed, or has no record of its hold")
	}
	s.passed("the backup is sealed; it held the cluster for %.2f s", doc.Report.Hold.Seconds)
	if len(doc.Restores) != 1 {
		return fmt.Errorf("the backup names %d restores instead of 1", len(doc.Restores))
	}
	unexpected := slices.DeleteFunc(doc.Restores[0].Warnings, func(text string) bool {
		return slices.ContainsFunc(s.cfg.Warns, func(of string) bool { return strings.HasPrefix(text, of) })
	})
	if len(unexpected) > 0 {
		return fmt.Errorf("the restore warned: %s", strings.Join(unexpected, "; "))
	}
	s.result.Unchanged = doc.Restores[0].Regions.Unchanged
	s.passed("the restore had nothing to warn of")
	return nil
}

// verifyRows holds the restored rows against the history at the backup ts, and against the copy that was
// read from the live cluster; now and at the backup ts; and looks for locks.
func (s *state) verifyRows(ctx context.Context, c *testbed.Cluster) error {
	restored, err := workload.Connect(ctx, c.PD.URLs())
	if err != nil {
		return err
	}
	defer func() { _ = restored.Close() }() // only read from
	ts := s.result.BackupTS
	got, err := s.load.History().VerifyRestored(ctx, restored, ts)
	if err != nil {
		return err
	}
	s.result.Rows, s.result.Total, s.result.Undetermined = got.Rows, got.Total, got.Undetermined
	if got.Rows == 0 {
		return errors.New("the restored cluster has no rows, which proves nothing")
	}
	now, err := restored.Now(ctx)
	if err != nil {
		return err
	}
	rows, err := restored.CopyAt(ctx, now)
	if err != nil {
		return fmt.Errorf("copy restored rows: %w", err)
	}
	if err := same(s.copy, rows); err != nil {
		return err
	}
	s.passed("the total is %d, as before", got.Total)
	s.passed("%d rows equal the history and the live cluster's copy at ts %s, at a fresh ts too", got.Rows, ts)
	s.passed("no lock is left")
	return nil
}

func same(want, got *workload.Copy) error {
	if len(want.Rows) != len(got.Rows) {
		return fmt.Errorf("the live cluster had %d rows at the backup ts, and %d were restored", len(want.Rows), len(got.Rows))
	}
	for key, row := range want.Rows {
		if other, ok := got.Rows[key]; !ok || other != row {
			return fmt.Errorf("%s was %+v in the live cluster and is %+v", key, row, other)
		}
	}
	return nil
}

func (s *state) verifyPD(c *testbed.Cluster) error {
	if c.PD.Recovering() {
		return errors.New("PD is still marked recovering")
	}
	s.passed("PD is not marked recovering")
	for _, sch := range c.PD.Schedulers() {
		if !sch.PausedAt.IsZero() {
			return fmt.Errorf("scheduler %s is still paused", sch.Name)
		}
	}
	if left := c.PD.TTLConfigs(); len(left) > 0 {
		return fmt.Errorf("PD's config is still overridden: %v", left)
	}
	for service := range c.PD.ServiceSafePoints() {
		if strings.HasPrefix(service, "tisnap") {
			return fmt.Errorf("GC is still held by %s", service)
		}
	}
	s.passed("nothing is held in PD")
	s.result.AllocID, s.result.Seen = c.PD.NextID(), largestID(c)
	if s.result.AllocID <= s.result.Seen {
		return fmt.Errorf("PD's next id is %d, and %d is taken", s.result.AllocID, s.result.Seen)
	}
	s.passed("PD's next id %d is above every id seen (%d)", s.result.AllocID, s.result.Seen)
	return nil
}

// verifyRegions checks that the regions that are led cover the key space exactly once, and that the peers of
// a region agree about its range: if they had not in the backup, the hold had not held.
func (s *state) verifyRegions(c *testbed.Cluster) error {
	var led []cluster.KeyRange
	versions := map[uint64]uint64{}
	for _, st := range c.Stores() {
		for _, p := range st.Peers() {
			v := p.Region.GetRegionEpoch().GetVersion()
			if before, known := versions[p.Region.GetId()]; known && before != v {
				return fmt.Errorf("the peers of region %d have versions %d and %d", p.Region.GetId(), before, v)
			}
			versions[p.Region.GetId()] = v
			if p.Leader {
				led = append(led, cluster.KeyRange{Start: p.Region.GetStartKey(), End: p.Region.GetEndKey()})
			}
		}
	}
	if err := cluster.Tile(led, 3); err != nil {
		return err
	}
	s.result.Regions = len(led)
	s.passed("%d regions cover the key space", len(led))
	return nil
}

func (s *state) verifyVolumes() error {
	volumes := s.bed.Volumes(target)
	if want := 2 * s.cfg.Stores; len(volumes) != want {
		return fmt.Errorf("the restored cluster has %d volumes instead of %d", len(volumes), want)
	}
	want := s.cfg.Volume
	for _, id := range volumes {
		v, ok := s.bed.EC2.Volume(id)
		if !ok || v.Spec.Type != want.Type || v.Spec.IOPS != want.IOPS || (want.ThroughputMiB > 0 && v.Spec.ThroughputMiB != want.ThroughputMiB) {
			return fmt.Errorf("volume %s is %+v, asked for was %+v", id, v.Spec, want)
		}
	}
	s.result.Volumes = len(volumes)
	s.passed("%d volumes are %s with %d IOPS and %d MiB/s", len(volumes), want.Type, want.IOPS, want.ThroughputMiB)
	return nil
}

func (s *state) passed(format string, args ...any) {
	s.result.Checks = append(s.result.Checks, fmt.Sprintf(format, args...))
}
