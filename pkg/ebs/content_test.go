package ebs_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// writer writes n = 1, 2, … first to a and then to b until ctx ends: at any one instant, a is equal to b or
// one ahead.
func writer(ctx context.Context, a, b *disk.Device) error {
	var buf [8]byte
	for n := uint64(1); ctx.Err() == nil; n++ {
		binary.BigEndian.PutUint64(buf[:], n)
		for _, d := range []*disk.Device{a, b} {
			if _, err := d.WriteAt(buf[:], 4096); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestCut_ConcurrentWrites_OneInstantForAllVolumes(t *testing.T) {
	t.Parallel()
	a := newAccount(t, func(c *ebstest.Config) {
		c.Rules.Latency = map[string]ebstest.Span{"CreateSnapshots": {Least: 800 * time.Millisecond, Most: 2 * time.Second}}
	})
	i, volumes := a.instance(t, 2)
	first, err := a.server.Device(volumes[0])
	require.NoError(t, err)
	second, err := a.server.Device(volumes[1])
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	var (
		writing  sync.WaitGroup
		writeErr error
	)
	writing.Go(func() { writeErr = writer(ctx, first, second) })
	for range 8 {
		made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
		require.NoError(t, err)
		values := map[cluster.VolumeID]uint64{}
		for _, p := range made {
			image, err := a.server.Image(p.ID)
			require.NoError(t, err)
			var buf [8]byte
			_, err = image.ReadAt(buf[:], 4096)
			require.NoError(t, err)
			values[p.Volume] = binary.BigEndian.Uint64(buf[:])
		}
		ahead := values[volumes[0]] - values[volumes[1]]
		require.LessOrEqual(t, ahead, uint64(1), "cut at two instants: %v", values)
	}
	cancel()
	writing.Wait()
	require.NoError(t, writeErr)
}

func TestCreateVolume_FromSnapshot_ContentOfTheCut(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	i, volumes := a.instance(t, 1)
	source, err := a.server.Device(volumes[0])
	require.NoError(t, err)
	for n := range 50 {
		_, err := source.WriteAt([]byte(fmt.Sprintf("before %02d", n)), int64(n)<<24)
		require.NoError(t, err)
	}
	made, err := a.Cut(t.Context(), ebs.CutRequest{Instance: i, Volumes: volumes})
	require.NoError(t, err)
	_, err = source.WriteAt([]byte("after it "), 7<<24)
	require.NoError(t, err)
	from := a.await(t, made)[0]
	require.EqualValues(t, 50*disk.PageSize, from.FullBytes)

	req := request(from, "token")
	req.Spec.SizeGiB = 30
	v, err := a.CreateVolume(t.Context(), req)
	require.NoError(t, err)
	device, err := a.server.Device(v.ID)
	require.NoError(t, err)
	require.EqualValues(t, 30<<30, device.Size())
	_, err = device.ReadAt(make([]byte, 9), 0)
	require.ErrorIs(t, err, disk.ErrDetached)

	eventually(t, "attached", func() bool { return a.server.Attach(v.ID, i) == nil })
	for n := range 50 {
		got := make([]byte, 9)
		_, err := device.ReadAt(got, int64(n)<<24)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("before %02d", n), string(got))
	}
	require.NoError(t, a.server.Detach(v.ID))
	_, err = device.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, disk.ErrDetached)
}
