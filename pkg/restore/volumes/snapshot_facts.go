package volumes

import (
	"fmt"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// startMargin is how far EC2's clock and PD's may differ.
const startMargin = 30 * time.Second

// contradictions compares what EC2 and the manifest know about a snapshot: a manifest that was edited or combined from
// others may have a matching digest, and would restore another store's data. What either side does not know is not a
// contradiction.
func contradictions(m *manifest.Manifest, want manifest.Snapshot, got ebs.Snapshot) []string {
	var out []string
	differ := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("%s ", want.ID)+fmt.Sprintf(format, args...))
	}
	copied := want.CopiedFrom != "" // EC2 reports an arbitrary volume for a copy
	if !copied && want.Volume != "" && got.Volume != "" && want.Volume != got.Volume {
		differ("is of volume %s, and of %s by the manifest", got.Volume, want.Volume)
	}
	for _, row := range []struct{ tag, want string }{
		{ebs.TagStore, want.Store.String()}, {ebs.TagBackup, string(m.TaggedAs(want.Store))},
		{ebs.TagCopiedFrom, string(want.CopiedFrom)},
	} {
		if m.Tool == manifest.ToolBR && row.tag == ebs.TagBackup {
			continue // br's document does not name its backup
		}
		if value := got.Tags[row.tag]; value != "" && value != row.want {
			differ("has the tag %s=%s, and %s by the manifest", row.tag, value, row.want)
		}
	}
	if got.StartedAt.IsZero() {
		return out
	}
	if apart := got.StartedAt.Sub(want.StartedAt).Abs(); !want.StartedAt.IsZero() && apart > time.Second {
		differ("started at %s, and at %s by the manifest", got.StartedAt.UTC().Format(time.RFC3339),
			want.StartedAt.UTC().Format(time.RFC3339))
	}
	if ts := m.BackupTS.Time(); got.StartedAt.Before(ts.Add(-startMargin)) {
		differ("started at %s, before the backup ts (%s)", got.StartedAt.UTC().Format(time.RFC3339),
			ts.UTC().Format(time.RFC3339))
	}
	return out
}

// onOutpost refuses snapshots stored on an Outpost: EC2 only creates volumes from them on an Outpost, and does not copy
// them to a Region. https://docs.aws.amazon.com/ebs/latest/userguide/snapshots-outposts.html
func onOutpost(m *manifest.Manifest, state map[cluster.SnapshotID]ebs.Snapshot) error {
	var ids []string
	for _, want := range m.Snapshots {
		if arn := state[want.ID].Outpost; arn != "" {
			ids = append(ids, fmt.Sprintf("%s (%s)", want.ID, arn))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return failure.New(failure.Unready, "check snapshots", string(m.ID), "%d of %d are kept on an Outpost: %s",
		len(ids), len(m.Snapshots), strings.Join(ids, ", ")).
		WithHint("EC2 makes volumes of them on that Outpost only, and a restore makes volumes in the zones of region "+
			"%s: restore another backup", m.Region)
}

// archived refuses snapshots in the archive tier, of which EC2 makes no volumes.
func archived(m *manifest.Manifest, state map[cluster.SnapshotID]ebs.Snapshot) error {
	var ids []string
	for _, want := range m.Snapshots {
		if state[want.ID].Archived {
			ids = append(ids, string(want.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return failure.New(failure.Unready, "check snapshots", string(m.ID), "%d of %d are in the archive tier: %s",
		len(ids), len(m.Snapshots), strings.Join(ids, ", ")).
		WithHint("%s", ebs.BackFromArchive(m.Region))
}
