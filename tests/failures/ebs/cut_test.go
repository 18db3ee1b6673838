package ebs_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// All volumes of a store are cut at one instant: what is written to one after the other is never cut the other
// way round.
// https://github.com/pingcap/tidb/issues/43433
// Catalogue: B1.
func TestVolumesOfAStore_CutAtOneInstant(t *testing.T) {
	t.Parallel()
	l := newLive(t, 3, 10)
	volumes := map[string][]cluster.VolumeID{} // by instance
	for _, id := range l.Volumes(liveName) {
		v, ok := l.EC2.Volume(id)
		require.True(t, ok)
		volumes[string(v.Instance)] = append(volumes[string(v.Instance)], id)
	}
	require.Len(t, volumes, 3)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, len(volumes))
	for _, pair := range volumes {
		go func() { ended <- l.count(ctx, pair) }()
	}
	o := l.options()
	result, err := l.backup(t, o)
	stop()
	for range volumes {
		require.NoError(t, <-ended)
	}
	l.sealed(t, o, result, err)

	counted := map[cluster.VolumeID]uint64{}
	started := map[cluster.VolumeID]time.Time{}
	for _, p := range l.snapshotsOf(o) {
		image, err := l.EC2.Image(p.ID)
		require.NoError(t, err)
		number := make([]byte, 8)
		_, err = image.ReadAt(number, image.Size()-disk.PageSize)
		require.NoError(t, err)
		counted[p.Volume], started[p.Volume] = binary.LittleEndian.Uint64(number), p.StartedAt
	}
	for instance, pair := range volumes {
		require.Equal(t, started[pair[0]], started[pair[1]], instance)
		first, second := counted[pair[0]], counted[pair[1]]
		require.Positive(t, first, "it was written to before the cut")
		require.True(t, first == second || first == second+1, "%s: %d was cut with %d", instance, first, second)
	}
	require.Len(t, l.EC2.Cuts(), 3, "one call an instance")
}

// count writes 1, 2, 3, … to the end of both volumes, always to the first one first.
func (l *live) count(ctx context.Context, pair []cluster.VolumeID) error {
	devices := make([]*disk.Device, len(pair))
	for i, id := range pair {
		var err error
		if devices[i], err = l.EC2.Device(id); err != nil {
			return err
		}
	}
	number := make([]byte, 8)
	tick := time.NewTicker(500 * time.Microsecond) // leaves the machine to the cluster
	defer tick.Stop()
	for n := uint64(1); ctx.Err() == nil; n++ {
		<-tick.C
		binary.LittleEndian.PutUint64(number, n)
		for _, device := range devices {
			if _, err := device.WriteAt(number, device.Size()-disk.PageSize); err != nil {
				return err
			}
		}
	}
	return nil
}

// A store whose volumes are on two instances cannot be cut by one call, and is refused before anything is paused.
// Catalogue: B1.
func TestVolumesOnTwoInstances_RefusedInPreflight(t *testing.T) {
	t.Parallel()
	l := newLive(t, 3, 10)
	moved := l.Volumes(liveName)[0]
	from, ok := l.EC2.Volume(moved)
	require.True(t, ok)
	for _, v := range l.EC2.Volumes() {
		if v.Instance != "" && v.Instance != from.Instance && v.Zone == from.Zone {
			t.Fatal("two nodes in a zone")
		}
	}
	other := l.EC2.AddInstance(from.Zone)
	require.NoError(t, l.EC2.Detach(moved))
	require.NoError(t, l.EC2.Attach(moved, other))
	o := l.options()
	_, err := l.backup(t, o)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, string(moved))
	require.Empty(t, l.EC2.Cuts())
	l.leftNothing(t, o)
}

// Tags do not add up over rotations: EC2 allows 50.
// https://github.com/pingcap/tidb/issues/50942
// Catalogue: B7.
func TestTenRotations_TagsStayAsMany(t *testing.T) {
	t.Parallel()
	const rotations = 10
	l := newLive(t, 2, 20, func(c *testbed.Config) { c.StaticRegions = 0 })
	theirs := ebs.Tags{}
	for n := range 40 {
		theirs[fmt.Sprintf("theirs-%d", n)] = "kept where it is"
	}
	for _, id := range l.Volumes(liveName) {
		require.NoError(t, l.EC2.TagVolume(id, theirs))
	}
	var keys [][]string // of a snapshot's tags and then a volume's, by rotation
	for n, name := 1, liveName; n <= rotations; n++ {
		backup := fmt.Sprintf("rotation-%d", n)
		l.tisnap(t, "backup", name.String(), "--name", backup)
		snapshots := l.EC2.Snapshots()
		keys = append(keys, sortedKeys(snapshots[len(snapshots)-1].Tags))
		_, err := l.DestroyCluster(t.Context(), name)
		require.NoError(t, err)
		name = cluster.Name{Namespace: "tidb", Name: fmt.Sprintf("copy-%d", n)}
		l.tisnap(t, "restore", backup, "--to", name.String(), "--volume-type", "gp3")
		c, err := l.AwaitCluster(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, c.AwaitResolved(t.Context(), 1))
		restored, ok := l.EC2.Volume(l.Volumes(name)[0])
		require.True(t, ok)
		keys = append(keys, sortedKeys(restored.Tags))
	}
	require.Len(t, l.EC2.Snapshots(), 4*rotations)
	t.Logf("tags of a snapshot: %v", keys[0])
	t.Logf("tags of a restored volume: %v", keys[1])
	for n := range keys {
		require.Equal(t, keys[n%2], keys[n], "rotation %d", n/2+1)
		require.Less(t, len(keys[n]), 20)
	}
}

func sortedKeys(tags ebs.Tags) []string {
	var keys []string
	for key := range tags {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// tisnap runs one command line in this process and requires that it succeeds.
func (l *live) tisnap(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	args = append(args, "--endpoint-url", l.AWS(), "--region", testbed.Region, "--kubeconfig", l.Kubeconfig(),
		"--progress", "plain", "--storage", "s3://"+testbed.Bucket+"/ebs", "--timeout", "1m")
	code := cli.Run(ctx, args, cli.Streams{Out: &stdout, Err: &stderr}, cli.Version{Version: "test"})
	require.Equal(t, cli.ExitDone, code, "%v\n%s", args, stderr.String())
}
