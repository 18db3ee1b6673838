package testbed

import (
	"time"

	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// What a real store waits for by its own clock, and what the Operator and the kubelet took. The first two follow from
// TiKV's pd-store-heartbeat-tick-interval and raft-base-tick-interval, the third is in its bootcluster (up to 60 times: a
// store that restarts in recovery mode may take three minutes), the others were measured.
const (
	firstHeartbeat = 10 * time.Second
	raftTick       = time.Second
	bootstrapRetry = 3 * time.Second
	// minTick keeps the scheduler of the machine from deciding elections.
	minTick = 100 * time.Millisecond
	// defaultTiKVScale makes elections as quick as minTick lets them be.
	defaultTiKVScale = 20

	// RealPodStart and RealResync are what PodStart and Resync of a testbed are to be that takes as long as a real cluster.
	RealPodStart = 4 * time.Second
	RealResync   = 10 * time.Second
)

// waits fills in what the options leave open.
func waits(o tikvtest.Options, scale float64) tikvtest.Options {
	if scale == 0 {
		scale = defaultTiKVScale
	}
	clock := timescale.New(scale)
	if o.FirstHeartbeat == 0 {
		o.FirstHeartbeat = clock.Real(firstHeartbeat)
	}
	if o.TickInterval == 0 {
		o.TickInterval = max(clock.Real(raftTick), minTick)
	}
	if o.BootstrapRetry == 0 {
		o.BootstrapRetry = clock.Real(bootstrapRetry)
	}
	return o
}
