package crash

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// killPoints are where a drill is killed: every second one, or all with TISNAP_TEST_EVERY_KILL.
func killPoints() []string {
	all := []string{
		"kube.create.networkpolicies", "kube.create.namespaces", "ec2.CreateVolume", "kube.create.pods",
		"kube.create.persistentvolumes", "kube.create.tidbclusters", "kube.delete.tidbclusters", "tidb.Tables",
		"kube.delete.namespaces", "ec2.DeleteVolume",
	}
	if os.Getenv("TISNAP_TEST_EVERY_KILL") != "" {
		return all
	}
	var some []string
	for i := 0; i < len(all); i += 2 {
		some = append(some, all[i])
	}
	return some
}

// A drill that is killed at any of its steps leaves what `drill clean` and `gc --cluster` remove: all of it.
func TestDrill_Killed_CleanLeavesNothing(t *testing.T) {
	t.Parallel()
	removers := [][]string{{"drill", "clean", "--yes"}, {"gc", "--cluster", "--older-than", "0s", "--yes"}}
	for i, at := range killPoints() {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
			defer cancel()
			path, err := shipped.Program()
			require.NoError(t, err)
			w, err := newWorld(ctx, t.TempDir(), &Program{Path: path}, 1)
			require.NoError(t, err)
			defer w.bed.Close()
			args, err := ofDrill(ctx, w)
			require.NoError(t, err, "%s", &w.out)
			require.NoError(t, w.killDrill(ctx, args, at, 1), "%s", &w.out)
			require.NoError(t, w.succeeds(ctx, removers[i%2]...), "%s", &w.out)
			for _, v := range w.bed.EC2.Volumes() {
				require.Empty(t, v.Tags[ebs.TagDrill], "%+v\n%s", v, &w.out)
			}
			space := cage.Name(killedRun)
			require.Nil(t, w.bed.Objects.Get("namespaces", "", space), "%s", &w.out)
			for _, kind := range []string{"tidbclusters", "persistentvolumeclaims", "pods"} {
				require.Empty(t, w.bed.Objects.List(kind, space), kind)
			}
			for _, pv := range w.bed.Objects.List("persistentvolumes", "") {
				text, err := pv.MarshalJSON()
				require.NoError(t, err)
				require.NotContains(t, string(text), space)
			}
		})
	}
}
