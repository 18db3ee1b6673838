package restore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
)

type pdVolumes struct{ kube.Restorer }

func (pdVolumes) MadeForTarget(context.Context, cluster.Name, cluster.RunID) ([]cluster.VolumeID, error) {
	return []cluster.VolumeID{"vol-pd"}, nil
}

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
func TestTagPDVolumes_AreTheRuns_AndLeftToTheirClaims(t *testing.T) {
	t.Parallel()
	e := tagged{tags: map[string]ebs.Tags{}}
	to := cluster.Name{Namespace: "tidb", Name: "copy"}
	r := newRun(Deps{Store: objstoretest.NewMemory(nil), Kube: pdVolumes{}, EBS: e}, Options{Target: to, Run: "r", Backup: "b"})
	require.NoError(t, r.runner.Check(t.Context(), phase.Step{
		Phase: "p", Name: "tag", Deadline: time.Minute, ReadOnly: true,
		Do: func(ctx context.Context, s *phase.Scope) error {
			r.tagPDVolumes(ctx, s)
			return nil
		},
	}))
	require.Equal(t, map[string]ebs.Tags{"vol-pd": {
		ebs.TagRun: "r", ebs.TagBackup: "b", ebs.TagCluster: "tidb/copy", ebs.TagRole: "pd",
	}}, e.tags)
	doomed, err := r.doomed(t.Context(), map[cluster.VolumeID]bool{})
	require.NoError(t, err)
	require.Equal(t, []cluster.VolumeID{"vol-tikv"}, doomed)
}
