package gc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// PD's volume was made by Kubernetes and tagged by the restore, with the role pd. When its TidbCluster, claim and PV are
// gone and the volume was retained, its tag is all that is left to find it by; while a PV has it, it stays.
func TestCollect_VolumeOfPD_IsFoundByItsTag(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		state ebs.VolumeState
		bound bool
		tags  ebs.Tags
		want  Action
	}{
		"left behind":     {ebs.VolumeAvailable, false, ebs.Tags{ebs.TagRun: "v", ebs.TagCluster: copied.String(), ebs.TagRole: "pd"}, ActionDelete},
		"a PV has it":     {ebs.VolumeAvailable, true, ebs.Tags{ebs.TagRun: "v", ebs.TagCluster: copied.String(), ebs.TagRole: "pd"}, ActionKeep},
		"a pod has it":    {ebs.VolumeInUse, false, ebs.Tags{ebs.TagRun: "v", ebs.TagCluster: copied.String(), ebs.TagRole: "pd"}, ActionInUse},
		"without the tag": {ebs.VolumeAvailable, false, ebs.Tags{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			k := p.killed(t)
			p.ec2.volumes = []ebs.Volume{{ID: "vol-pd", State: row.state, Tags: row.tags}}
			left := k.left["v"]
			left.Claims, left.Volumes, left.Handles, left.UID = nil, nil, nil, ""
			if row.bound {
				left.Volumes, left.Handles = []string{"pv-pd"}, []cluster.VolumeID{"vol-pd"}
			}
			k.left["v"] = left
			report, err := Collect(t.Context(), p.deps, Options{Rate: fast, DryRun: true})
			require.NoError(t, err)
			require.Equal(t, row.want, of(report, "v")["vol-pd"], "%+v", report.Items)
		})
	}
}
