package operator_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// It lets a Restore fail after an earlier one of the same backup has its volumes, which nothing has attached: of a cluster
// that was scaled to nothing, for example. After each failure the Operator deletes what the storage's restoremeta names.
// Catalogue: E16.
func TestFailedRestore_OperatorDeletesNoVolumesOfTheEarlierOne(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
	t.Parallel()
	p := newPlace(t)
	earlier, pod, err := p.BeginRestoreVolumes(within(t), p.target)
	require.NoError(t, err)
	require.NoError(t, earlier.Wait())
	doc, err := os.ReadFile(filepath.Join(pod.Bin, "csb_restore.json"))
	require.NoError(t, err)
	require.Len(t, p.restored(), 6)
	next := cluster.Name{Namespace: "tidb", Name: "again"}
	require.NoError(t, p.CreateTarget(within(t), next, 3))
	for name, fails := range map[string]struct {
		options []string
		at      *fault.Rule
	}{
		"an option that br does not know": {options: []string{"--volume-kind=gp3"}},
		"a type that EC2 does not have":   {options: []string{"--volume-type=floppy"}},
		"EC2 refuses":                     {at: &fault.Rule{Point: "ec2.DescribeSnapshots", Position: fault.Before, Code: "UnauthorizedOperation"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, p.Upload(within(t), "restoremeta", doc))
			p.RestoreOptions = fails.options
			if fails.at != nil {
				require.NoError(t, p.faults.Add(*fails.at))
			}
			_, err := p.RestoreVolumes(within(t), next)
			require.Error(t, err)
			require.Equal(t, failure.NotFound, failure.KindOf(p.CleanVolumes(within(t))), "there is nothing to delete by")
			require.Len(t, p.restored(), 6)
		})
	}
	p.RestoreOptions = nil
	_, err = p.RestoreVolumes(within(t), next)
	require.NoError(t, err)
	require.Len(t, p.restored(), 12)
}
