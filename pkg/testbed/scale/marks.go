package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// What marks may take.
const (
	maxMarkSeconds = 10.0
	// maxHoldRatio is how much longer a hold may look with marks than without: the two are backups of different moments.
	maxHoldRatio = 1.05
	// markAnswer is how long a store takes for one raft state.
	markAnswer = 3 * time.Millisecond
)

// Marks is what the marks of a backup cost.
type Marks struct {
	Reading  Reading  `json:"reading"`
	Holds    Compared `json:"holds"`
	Million  Sizes    `json:"millionRegions"`
	ReadyIn  float64  `json:"clusterMadeInSeconds"`
	Exceeded []string `json:"exceeded"` // the limits that are not kept
}

// Reading is the reading of the marks of one store's regions, by its real protocol.
type Reading struct {
	Regions int     `json:"regions"`
	Marks   int     `json:"marks"`
	Answer  float64 `json:"answerSeconds"` // how long the store takes for one
	Seconds float64 `json:"seconds"`
	// Floor is what so many answers take at the most calls that may be open, or at the most a second.
	Floor    float64 `json:"floorSeconds"`
	Limit    float64 `json:"limitSeconds"`
	Open     int64   `json:"callsOpen"`
	MostOpen int64   `json:"callsOpenLimit"`
}

// Compared is the holds of backups of one cluster in turn, with marks and without, in seconds.
type Compared struct {
	With          []float64 `json:"with"`
	Without       []float64 `json:"without"`
	MedianWith    float64   `json:"medianWith"`
	MedianWithout float64   `json:"medianWithout"`
	Ratio         float64   `json:"ratio"`
	Limit         float64   `json:"limitRatio"`
	// Read is how many raft states the backups read, and WhileHeld how many of them while the cluster was held.
	Read      int64 `json:"raftStatesRead"`
	WhileHeld int64 `json:"raftStatesReadWhileHeld"`
}

// MeasureMarks measures the marks of a cluster of one store that leads so many regions, and the sizes of those of a
// million regions. Each kind of backup is made rounds times.
func MeasureMarks(ctx context.Context, program func(*testbed.Testbed) Program, regions, rounds int, seed int64) (*Marks, error) {
	m := &Marks{}
	if err := m.Million.measure(); err != nil { // before there is a testbed in this process
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tisnap-marks-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	watch := &observer{}
	bed, plan, err := start(ctx, dir, 1, regions, seed, watch, func(r *ebstest.Rules) {
		r.Latency = map[string]ebstest.Span{"CreateSnapshots": {Least: time.Second, Most: time.Second}}
	})
	if err != nil {
		return nil, err
	}
	defer bed.Close()
	begin := time.Now()
	if _, err := bed.CreateCluster(ctx, prod, 1); err != nil {
		return nil, err
	}
	m.ReadyIn = time.Since(begin).Seconds()
	err = errors.Join(m.read(ctx, bed.Nodes.Cluster(prod), plan), m.compare(ctx, program(bed), watch, plan, rounds))
	m.checkLimits()
	return m, err
}

// counted counts the calls that are open.
type counted struct {
	tikv.Marker
	open, most atomic.Int64
}

func (c *counted) RaftState(ctx context.Context, address string, region cluster.RegionID) (tikv.RaftState, error) {
	now := c.open.Add(1)
	defer c.open.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	return c.Marker.RaftState(ctx, address, region)
}

// read reads the marks as a backup does.
func (m *Marks) read(ctx context.Context, c *testbed.Cluster, plan *fault.Plan) error {
	if err := plan.Add(fault.Rule{Point: "tikv.*.RegionInfo", Position: fault.Slow, Delay: markAnswer, Times: -1}); err != nil {
		return err
	}
	defer plan.Clear()
	oracle, err := pd.Open(ctx, pd.Config{Addresses: c.PD.URLs()})
	if err != nil {
		return err
	}
	defer oracle.Close()
	client := tikv.Open(tikv.Config{})
	defer client.Close()
	regions, err := oracle.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return err
	}
	var sources []marks.Source
	for _, s := range c.Stores() {
		sources = append(sources, marks.Source{Store: cluster.StoreID(s.ID()), Address: s.Addr()})
	}
	calls := &counted{Marker: client}
	begin := time.Now()
	got, err := marks.Read(ctx, calls, sources, regions, func() {})
	if err != nil {
		return err
	}
	m.Reading = Reading{
		Regions: len(regions), Answer: markAnswer.Seconds(), Seconds: time.Since(begin).Seconds(), Limit: maxMarkSeconds,
		Floor: float64(len(regions)) * max(1.0/marks.MaxRate, markAnswer.Seconds()/marks.MaxCalls),
		Open:  calls.most.Load(), MostOpen: marks.MaxCalls,
	}
	m.Reading.Marks = got.Set().Len()
	return nil
}

// compare backs the cluster up in turn with marks and without.
func (m *Marks) compare(ctx context.Context, program Program, watch *observer, plan *fault.Plan, rounds int) error {
	h := &m.Holds
	h.Limit = maxHoldRatio
	if err := errors.Join(watch.pauses(plan), watch.raftStates(plan)); err != nil {
		return err
	}
	for i := range 2 * rounds {
		policy, to := "auto", &h.With
		if i%4 == 1 || i%4 == 2 { // with, without, without, with: what changes over time meets both
			policy, to = "off", &h.Without
		}
		watch.reset()
		one := &Hold{Stores: 1}
		if err := one.backup(ctx, program, "--marks", policy); err != nil {
			return fmt.Errorf("backup %d, --marks=%s: %w", i+1, policy, err)
		}
		watch.fill(one)
		*to = append(*to, max(one.Seconds, one.Observed))
		h.Read, h.WhileHeld = h.Read+watch.read, h.WhileHeld+watch.whileHeld
	}
	h.MedianWith, h.MedianWithout = middle(h.With), middle(h.Without)
	h.Ratio = h.MedianWith / h.MedianWithout
	return nil
}

func middle(seconds []float64) float64 {
	sorted := slices.Sorted(slices.Values(seconds))
	return sorted[len(sorted)/2]
}

// checkLimits lists the limits that were exceeded.
func (m *Marks) checkLimits() {
	r, h, s := m.Reading, m.Holds, m.Million
	for _, limit := range []struct {
		kept bool
		text string
	}{
		{r.Marks == r.Regions, fmt.Sprintf("%d of %d regions have a mark", r.Marks, r.Regions)},
		{r.Seconds <= r.Limit, fmt.Sprintf("marks were read in %.1f s, more than %.0f s (floor %.1f s)", r.Seconds, r.Limit, r.Floor)},
		{r.Open <= r.MostOpen, fmt.Sprintf("%d calls were open, more than %d", r.Open, r.MostOpen)},
		{h.Ratio <= h.Limit, fmt.Sprintf("the hold took %.3f times as long with marks, more than %.2f", h.Ratio, h.Limit)},
		{h.Read > 0 && h.WhileHeld == 0, fmt.Sprintf("%d of %d raft states were read while the cluster was held", h.WhileHeld, h.Read)},
		{s.StoredBytes <= s.StoredLimit, fmt.Sprintf("%d bytes in storage, more than %d", s.StoredBytes, s.StoredLimit)},
		{s.MemoryEach <= s.MemoryLimit, fmt.Sprintf("%.1f bytes a region in memory, more than %.0f", s.MemoryEach, s.MemoryLimit)},
	} {
		if !limit.kept {
			m.Exceeded = append(m.Exceeded, limit.text)
		}
	}
}
