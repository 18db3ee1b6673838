package mishap

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"

	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// foreignService is the safe point of the other tool, named as br names its own.
const foreignService = "br-4711"

// Foreign is another tool that holds the cluster: a scheduler paused, a safe point, and a lease on a store.
type Foreign struct {
	cluster   *testbed.Cluster
	client    *tikv.Client
	lease     tikv.Lease
	scheduler string
}

// DrawForeign draws whether another tool holds the cluster in this run: in one of eight.
func DrawForeign(seed int64) bool {
	return rand.New(rand.NewPCG(uint64(seed), 0xf0e1)).IntN(8) == 0
}

// HoldForeign makes another tool hold the cluster.
func HoldForeign(ctx context.Context, c *testbed.Cluster) (*Foreign, error) {
	f := &Foreign{cluster: c, client: tikv.Open(tikv.Config{})}
	all := c.PD.Schedulers()
	if len(all) == 0 {
		return nil, errors.New("PD lists no scheduler")
	}
	f.scheduler = all[0].Name
	if err := c.PD.PauseByOther(f.scheduler, time.Minute); err != nil {
		return nil, err
	}
	if err := f.holdGC(ctx, 60); err != nil {
		return nil, err
	}
	var err error
	if f.lease, err = f.client.OpenLease(ctx, c.Stores()[0].Addr()); err != nil {
		return nil, err
	}
	_, err = f.lease.Renew(ctx, time.Minute)
	return f, err
}

func (f *Foreign) holdGC(ctx context.Context, seconds int64) error {
	ts, err := f.cluster.PD.FreshTS(ctx)
	if err != nil {
		return err
	}
	_, err = f.cluster.PD.UpdateServiceGCSafePoint(ctx, &pdpb.UpdateServiceGCSafePointRequest{
		ServiceId: []byte(foreignService), TTL: seconds, SafePoint: ts,
	})
	return err
}

// End lets the other tool release what it holds. It is an error if any of it was ended by someone else.
func (f *Foreign) End(ctx context.Context) error {
	defer f.client.Close()
	defer f.lease.Close()
	valid, err := f.lease.Finish(ctx)
	if err != nil || !valid {
		err = fmt.Errorf("the other tool's lease was ended: valid %t: %w", valid, errors.Join(err, errEnded))
	}
	for _, s := range f.cluster.PD.Schedulers() {
		if s.Name == f.scheduler && s.ResumeAt.IsZero() {
			err = errors.Join(err, fmt.Errorf("the other tool's %s was resumed", s.Name))
		}
	}
	if _, held := f.cluster.PD.ServiceSafePoints()[foreignService]; !held {
		err = errors.Join(err, errors.New("the other tool's safe point was removed"))
	}
	return errors.Join(err, f.cluster.PD.PauseByOther(f.scheduler, 0), f.holdGC(ctx, 0))
}

var errEnded = errors.New("another's stream or lease is not tisnap's to end")
