package leak

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
)

// Known checks what has to hold at every moment, also right after a kill: each snapshot and each volume that a run made is
// of a run with a journal, or in a sealed manifest, so that gc finds it; and each snapshot that a sealed manifest names is
// completed.
func Known(ctx context.Context, ec2 *ebstest.Server, store objstore.Store) error {
	sealed, err := sealedSnapshots(ctx, store)
	if err != nil {
		return err
	}
	journals := map[string]bool{}
	known := func(run string) (bool, error) {
		if there, asked := journals[run]; asked {
			return there, nil
		}
		_, err := runs.Read(ctx, store, cluster.RunID(run))
		if err != nil && !failure.Is(err, failure.NotFound) {
			return false, err
		}
		journals[run] = err == nil
		return err == nil, nil
	}
	var wrong []string
	check := func(what, run string) error {
		there, err := known(run)
		if err == nil && !there {
			wrong = append(wrong, fmt.Sprintf("%s is of run %q, which has no journal", what, run))
		}
		return err
	}
	for _, s := range ec2.Snapshots() {
		if sealed[s.ID] {
			if s.State != ebs.SnapshotCompleted {
				wrong = append(wrong, fmt.Sprintf("snapshot %s is sealed and %s", s.ID, s.State))
			}
			continue
		}
		if err := check("snapshot "+string(s.ID), s.Tags[ebs.TagRun]); err != nil {
			return err
		}
	}
	for _, v := range ec2.Volumes() {
		run, made := v.Tags[ebs.TagRun]
		if !made || v.State == ebs.VolumeDeleting {
			continue
		}
		if err := check("volume "+string(v.ID), run); err != nil {
			return err
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("%d unknown: %s", len(wrong), strings.Join(wrong, "; "))
}
