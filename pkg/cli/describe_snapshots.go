package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/lockset"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// describeTimeout bounds what describe asks EC2: the rest of it needs the storage alone.
const describeTimeout = 10 * time.Second

// ec2Facts are what EC2 reports of a backup's snapshots.
type ec2Facts struct {
	// Locks are those that hold.
	Locks []lockset.Item `json:"locks,omitempty"`
	// Archived are the snapshots in the archive tier.
	Archived []cluster.SnapshotID `json:"archived,omitempty"`
	// RestoredUntil is when the first of those that are temporarily back in the standard tier is archived again.
	RestoredUntil time.Time `json:"restoredUntil,omitzero"`
	// Missing are the snapshots that EC2 does not have.
	Missing []cluster.SnapshotID `json:"missing,omitempty"`
	// Unknown is why EC2 could not be asked.
	Unknown string `json:"unknown,omitempty"`
}

// askEC2 asks EC2 for the snapshots' locks and tiers. What cannot be asked is unknown, and no error.
func (a *app) askEC2(ctx context.Context, m *manifest.Manifest) ec2Facts {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	facts, err := a.readEC2(ctx, m)
	if err != nil {
		return ec2Facts{Unknown: failure.Line(err.Error())}
	}
	return facts
}

func (a *app) readEC2(ctx context.Context, m *manifest.Manifest) (facts ec2Facts, err error) {
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return facts, err
	}
	defer c.close()
	e, err := c.ebsAt(ctx, ebs.Config{Region: m.Region})
	if err != nil {
		return facts, err
	}
	found, err := e.DescribeSnapshots(ctx, m.SnapshotIDs())
	if err != nil {
		return facts, err
	}
	for _, s := range found {
		if s.Archived {
			facts.Archived = append(facts.Archived, s.ID)
		}
		if at, first := s.RestoredUntil, facts.RestoredUntil; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			facts.RestoredUntil = at
		}
	}
	set, err := lockset.Read(ctx, e, m)
	if err != nil {
		return facts, err
	}
	for _, it := range set.Items {
		if it.Action == lockset.ActionMissing {
			facts.Missing = append(facts.Missing, it.Snapshot)
		}
		if it.Mode != "" {
			facts.Locks = append(facts.Locks, it)
		}
	}
	return facts, nil
}

// table writes the lines of a backup of n snapshots; none for what is as usual.
func (f *ec2Facts) table(w io.Writer, v view, n int) error {
	var lines []string
	line := func(name, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%-12s %s\n", name, fmt.Sprintf(format, args...)))
	}
	if f.Unknown != "" {
		line("snapshots", "unknown: %s", oneLine(f.Unknown))
	}
	if len(f.Missing) > 0 {
		line("snapshots", "%d of %d are gone", len(f.Missing), n)
	}
	if len(f.Locks) > 0 {
		line("locked", "%s", f.locked(v, n))
	}
	if len(f.Archived) > 0 {
		line("archive tier",
			"%d of %d snapshots: a restore needs them back in the standard tier, which takes up to 72 hours",
			len(f.Archived), n)
	}
	if !f.RestoredUntil.IsZero() {
		line("archive tier", "snapshots are back in the standard tier only until %s", v.text(f.RestoredUntil))
	}
	for _, text := range lines {
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// locked is how the set is locked: its weakest mode, and its first end. A set is locked if all of it is.
func (f *ec2Facts) locked(v view, n int) string {
	until, cooled := f.Locks[0].ExpiresAt, time.Time{}
	modes := map[string]bool{}
	for _, l := range f.Locks {
		modes[l.Mode] = true
		if l.ExpiresAt.Before(until) {
			until = l.ExpiresAt
		}
		if l.CooledOffAt.After(cooled) {
			cooled = l.CooledOffAt
		}
	}
	mode := ebs.LockCompliance
	switch {
	case modes[ebs.LockGovernance]:
		mode = ebs.LockGovernance
	case modes[ebs.LockCoolingOff]:
		mode = "compliance after " + v.text(cooled)
	}
	out := fmt.Sprintf("%d of %d snapshots, %s until %s", len(f.Locks), n, mode, v.text(until))
	if len(f.Locks) < n {
		out += "; tisnap lock locks the rest"
	}
	return out
}
