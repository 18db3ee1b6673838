package volumes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Delete deletes the run's volumes, known ones and those found by tag. While a request is unanswered it looks again,
// until EC2 cannot hide its volume any more. It waits for attached volumes if their pods are terminating, and never
// forces a detach. All are tried, whatever fails.
func (m *Maker) Delete(ctx context.Context, s *phase.Scope, podsGo bool) error {
	hiddenUntil := time.Now().Add(m.opts.Visibility)
	gone := map[cluster.VolumeID]bool{}
	for waiting := false; ; {
		asked := time.Now() // not after the deletions, which may take longer than EC2 hides a volume
		doomed, findErr := m.doomed(ctx, gone)
		s.Expect(int64(len(doomed)+len(gone)), "volumes")
		if failure.Is(findErr, failure.Conflict) {
			return findErr
		}
		errs := []error{findErr}
		left := ebs.DeleteEach(ctx, doomed, m.deleteVolume(podsGo), func(id cluster.VolumeID) {
			gone[id] = true
			s.Reached(int64(len(gone)))
		})
		errs = append(errs, slices.Collect(maps.Values(left))...)
		if err := errors.Join(errs...); err != nil {
			return m.notDeleted(doomed, gone, err)
		}
		if !m.unanswered(len(gone)) || asked.After(hiddenUntil) {
			m.remains.Clear(RemainsVolumes)
			return nil
		} else if !waiting {
			waiting = true
			s.Note("waiting until %s for volumes that a timed-out request may still create, to delete "+
				"them; if this process has to end before: %s",
				hiddenUntil.UTC().Format(time.RFC3339), m.removal())
		}
		if err := wait.For(ctx, m.opts.Poll); err != nil {
			return m.notDeleted(nil, gone, err)
		}
	}
}

// Kept describes the volumes when the lock is lost.
func (m *Maker) Kept() string {
	return fmt.Sprintf("the volumes tagged %s=%s are kept: another process may continue the run with them; else "+
		"tisnap gc deletes them", ebs.TagRun, m.owner.Run)
}

// doomed lists the run's volumes that still exist; on an error those known without EC2, and none if a later process of
// the run requested one or took it over: that process has the lock.
func (m *Maker) doomed(ctx context.Context, gone map[cluster.VolumeID]bool) ([]cluster.VolumeID, error) {
	var ids []cluster.VolumeID
	seen := map[cluster.VolumeID]bool{"": true}
	add := func(id cluster.VolumeID) {
		if !seen[id] && !gone[id] {
			ids = append(ids, id)
		}
		seen[id] = true
	}
	for _, v := range m.volumes {
		add(v.ID)
	}
	found, err := m.ec2.FindVolumes(ctx, ebs.Tags{ebs.TagRun: string(m.owner.Run)})
	for _, v := range found {
		if err := v.Tags.MadeLater("delete volumes", m.owner.Run, string(v.ID),
			m.owner.Runner.Fence().Epoch()); err != nil {
			return nil, err
		}
		if v.Tags[ebs.TagRole] != RolePD { // deleted with its claim, or kept with a persistent volume that is named
			add(v.ID)
		}
	}
	return ids, failure.Annotate(err, "find volumes", "run "+string(m.owner.Run))
}

// unanswered reports whether there may be an unknown volume. A failed volume and its replacement count as two.
func (m *Maker) unanswered(gone int) bool {
	return m.asked && gone < len(m.volumes)+m.replaced
}

func (m *Maker) deleteVolume(podsGo bool) func(context.Context, cluster.VolumeID) error {
	return func(ctx context.Context, id cluster.VolumeID) error {
		return phase.Poll(ctx, m.opts.Poll, "delete volume", string(id), func(ctx context.Context) (bool, error) {
			err := m.ec2.DeleteVolume(ctx, id)
			if failure.Is(err, failure.Conflict) && podsGo {
				return false, nil // still attached: its pod terminates with the cluster
			}
			return err == nil, err
		})
	}
}

func (m *Maker) notDeleted(doomed []cluster.VolumeID, gone map[cluster.VolumeID]bool, err error) error {
	var names []string
	for _, id := range doomed {
		if !gone[id] {
			names = append(names, string(id))
		}
	}
	what := fmt.Sprintf("%d may be left (%s)", len(names), strings.Join(names, " "))
	if len(names) == 0 {
		what = "some may be left that EC2 has not shown yet"
	}
	return &failure.Error{
		Op: "delete volumes", Target: "run " + string(m.owner.Run), Kind: failure.KindOf(err),
		Hint: "run: tisnap gc --storage " + m.owner.Storage +
			" --yes (an hour later, or with --older-than 0s); the volumes carry the tag " + ebs.TagRun + "=" +
			string(m.owner.Run),
		Err: fmt.Errorf("%s: %w", what, err),
	}
}
