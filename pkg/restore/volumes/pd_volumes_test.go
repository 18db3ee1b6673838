package volumes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
)

type tagged struct {
	EBS
	tags map[string]ebs.Tags
}

func (t tagged) PutTags(_ context.Context, resources []string, tags ebs.Tags) error {
	for _, id := range resources {
		t.tags[id] = tags
	}
	return nil
}

func (t tagged) FindVolumes(context.Context, ebs.Tags) ([]ebs.Volume, error) {
	return []ebs.Volume{{ID: "vol-pd", Tags: t.tags["vol-pd"]}, {ID: "vol-tikv"}}, nil
}

// PD's volume, which Kubernetes made, carries the run, so that gc finds it; the run's own undo leaves it to its claim.
func TestTagPD_VolumesAreTheRuns_AndLeftToTheirClaims(t *testing.T) {
	t.Parallel()
	e := tagged{tags: map[string]ebs.Tags{}}
	m := NewMaker(e, owner(objstoretest.NewMemory(nil)), Options{}, nil, nil)
	require.NoError(t, m.owner.Runner.Check(t.Context(), phase.Step{
		Phase: "p", Name: "tag", Deadline: time.Minute, ReadOnly: true,
		Do: func(ctx context.Context, s *phase.Scope) error {
			m.TagPD(ctx, s, []cluster.VolumeID{"vol-pd"})
			return nil
		},
	}))
	require.Equal(t, map[string]ebs.Tags{"vol-pd": {
		ebs.TagRun: "r", ebs.TagBackup: "b", ebs.TagCluster: "tidb/copy", ebs.TagRole: "pd",
	}}, e.tags)
	doomed, err := m.doomed(t.Context(), map[cluster.VolumeID]bool{})
	require.NoError(t, err)
	require.Equal(t, []cluster.VolumeID{"vol-tikv"}, doomed)
}
