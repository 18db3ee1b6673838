package resume

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// place is a call of a data phase, and about how often it is made.
type place struct {
	point string
	calls int
}

// places are the calls of the sub-phases, in their order.
func places(regions int) []place {
	return []place{
		{"pd.Stores", 4},
		{"pd.EtcdRange", 3},
		{"tikv.*.ReadRegionMeta", 3},
		{"pd.RaiseAllocID", 1}, {"pd.AllocID", 2},
		{"pd.SetTTLConfig", 1}, {"pd.Schedulers", 2}, {"pd.PauseScheduler", 2},
		{"pd.UpdateServiceGCSafePoint", 1}, {"pd.SafePoints", 2}, {"pd.Tso", 2},
		{"tikv.*.RecoverRegion", 3},
		{"pd.ScanRegions", 4},
		{"tikv.*.KvScanLock", regions / 2},
		{"tikv.*.KvPrepareFlashbackToVersion", regions},
		{"tikv.*.KvFlashbackToVersion", regions},
		{"s3.PutObject", 70},
		{"pd.UnmarkRecovering", 1}, {"pd.Recovering", 2},
		{"pd.DropTTLConfig", 1}, {"pd.ResumeScheduler", 2},
	}
}

// recordsBeforeTiKV is more than a restore writes to object storage before it lets TiKV start.
const recordsBeforeTiKV = 32

// trouble is a fault, in words for the reader of a failed run.
type trouble struct {
	text string
	rule fault.Rule
}

func (t trouble) String() string {
	return fmt.Sprintf("%s at call %d of %s (%d times)", t.text, max(t.rule.Nth, 1), t.rule.Point, max(t.rule.Times, 1))
}

// hands are what a trouble can do beside answering.
type hands struct {
	kill    func()
	store   func(oom bool) // restarts one of the stores
	pd      func(crash bool)
	regions int
}

// draw makes one trouble.
func draw(rng *rand.Rand, h hands) trouble {
	all := places(h.regions)
	at := all[rng.IntN(len(all))]
	rule := fault.Rule{Point: at.point, Nth: 1 + rng.IntN(at.calls)}
	watch := func(text string, do func()) trouble {
		rule.Position, rule.Do = fault.Slow, do
		return trouble{text, rule}
	}
	switch n := rng.IntN(100); {
	case n < 20:
		rule.Times = 1 + rng.IntN(3)
		return trouble{"refused", rule}
	case n < 40:
		rule.Position, rule.Times = fault.After, 1+rng.IntN(3)
		return trouble{"done but the answer lost", rule}
	case n < 50:
		rule.Position, rule.Times, rule.Delay = fault.Slow, 1+rng.IntN(10), time.Duration(20+rng.IntN(400))*time.Millisecond
		return trouble{"slow", rule}
	case n < 53:
		rule.Position = fault.Stall
		return trouble{"stalled", rule}
	case n < 68:
		return regionError(rng, rule, h)
	case n < 78:
		oom := rng.IntN(2) == 0
		return watch(fmt.Sprintf("a store restarts (killed: %t)", oom), func() { h.store(oom) })
	case n < 86:
		crash := rng.IntN(3) == 0
		return watch(fmt.Sprintf("PD changes its leader (killed: %t)", crash), func() { h.pd(crash) })
	}
	// A restore that is killed before its stores run has nothing to be resolved yet.
	switch at.point {
	case "pd.Tso", "pd.Recovering":
		rule.Point, rule.Nth = "pd.RaiseAllocID", 1
	case "s3.PutObject":
		rule.Nth = recordsBeforeTiKV + rng.IntN(at.calls-recordsBeforeTiKV)
	}
	return watch("the tool is killed", h.kill)
}

// regionError is a store's answer while its region moves, splits or is busy.
func regionError(rng *rand.Rand, rule fault.Rule, h hands) trouble {
	rpc := []string{"KvPrepareFlashbackToVersion", "KvFlashbackToVersion"}[rng.IntN(2)]
	codes := []string{"server_is_busy", "not_leader", "epoch_not_match", "region_not_found", "stale_command", "flashback_not_prepared"}
	if rpc == "KvPrepareFlashbackToVersion" {
		codes = codes[:5]
	}
	rule.Point, rule.Nth, rule.Times = "tikv.*."+rpc, 1+rng.IntN(h.regions), 1+rng.IntN(h.regions)
	rule.Code = codes[rng.IntN(len(codes))]
	return trouble{"answered with " + rule.Code, rule}
}
