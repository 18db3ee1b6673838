package archivebench

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m)
}

// Of an archive over connections that break, only the packs that were broken are sent again.
func TestArchive_ResetConnections_OnlyTheirPacksAreSentAgain(t *testing.T) {
	t.Parallel()
	const mib, pack = 48, 2 << 20
	s3 := objstoretest.New(objstoretest.Config{})
	require.NoError(t, s3.Start(t.Context()))
	defer func() { require.NoError(t, s3.Close()) }()
	s3.CreateBucket(testbed.Bucket)
	to, err := url.Parse(s3.URL())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	p := &path{to: to.Host, trip: time.Millisecond, window: farWindow, each: 16 << 20}
	require.NoError(t, p.open(ctx))
	defer p.close()
	defer cancel()
	store, err := objstore.Open(ctx, "s3://"+testbed.Bucket+"/far", objstore.Config{Region: testbed.Region, Endpoint: p.url()})
	require.NoError(t, err)
	r, _, err := archivetest.New(ctx, store, repository.DefaultPackSize)
	require.NoError(t, err)
	sent := p.up.Load()
	c := FarConfig{MiB: mib, Progress: func(text string) { t.Log(text) }}
	v, err := c.archive(ctx, r, repository.Way{Uploads: 4, Size: pack}, &steady{passed: p.up.Load, total: mib << 20})
	require.NoError(t, err)
	broken, again := p.resets.Load(), p.up.Load()-sent-mib<<20
	t.Logf("%d resets, %d bytes sent again", broken, again)
	require.NotZero(t, broken)
	const beside = 1 << 20 // requests, trailers and the map
	require.LessOrEqual(t, again, broken*(pack+1<<19)+beside, "a pack ends with the block that fills it")
	require.NoError(t, volume.Restore(ctx, r, v, nowhere{}, farReads), "each block is there, and whole")
}
