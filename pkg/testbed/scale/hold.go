package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// Program runs tisnap with these arguments and returns its exit code; stdout is what it prints there.
type Program func(ctx context.Context, args []string, stdout io.Writer) (exitCode int, err error)

// The bucket of CreateSnapshots, as EC2 documents it, and what a hold may add to what EC2 takes.
const (
	bucketSize   = 100
	bucketRefill = 5
	overSlowest  = 1500 * time.Millisecond
	overFloor    = 2 * time.Second
)

const (
	volumesPerStore = 2
	storage         = "s3://" + testbed.Bucket + "/scale"
)

var prod = cluster.Name{Namespace: "tidb", Name: "prod"}

// Hold is the measured hold of one backup.
type Hold struct {
	Stores  int `json:"stores"`
	Volumes int `json:"volumes"`
	Regions int `json:"regions"`
	// Seconds is the hold as the program reports it; Observed as PD and the stores felt it: from the first pause to
	// the last release that the stand-ins took.
	Seconds  float64 `json:"seconds"`
	Observed float64 `json:"observedSeconds"`
	Cut      float64 `json:"cutSeconds"`
	// Slowest is the slowest answer to CreateSnapshots, and Floor the time in which the bucket gives so many tokens.
	Slowest float64 `json:"slowestCreateSnapshotsSeconds"`
	Floor   float64 `json:"bucketFloorSeconds"`
	// Limit is what Seconds is to stay under, and By how it is made.
	Limit     float64 `json:"limitSeconds"`
	By        string  `json:"limitIs"`
	Within    bool    `json:"withinLimit"`
	Throttled int     `json:"createSnapshotsThrottled"`
	Attempts  int     `json:"attempts"`
	Parts     []Part  `json:"parts"`
	// Via is how the program reached PD and the stores. Forward is what port forwards took, nil if there were none, and Adds
	// the hold beyond that of the same cluster without them.
	Via     reach.Via       `json:"via"`
	Forward *report.Forward `json:"portForward,omitempty"`
	Adds    *float64        `json:"addsSeconds,omitempty"`
	// ReadyIn is how long the testbed took to make the cluster.
	ReadyIn float64 `json:"clusterMadeInSeconds"`
}

// Part is one part of the hold as the program reports it.
type Part struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// MeasureHold makes a cluster of stores that lead regions each, and backs it up once. By reach.PortForward all of its addresses
// are names that resolve nowhere, as seen from outside.
func MeasureHold(ctx context.Context, program func(*testbed.Testbed) Program, via reach.Via, stores, regions int, seed int64) (*Hold, error) {
	dir, err := os.MkdirTemp("", "tisnap-scale-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	watch := &observer{}
	bed, plan, err := startVia(ctx, dir, via, stores, regions, seed, watch)
	if err != nil {
		return nil, err
	}
	defer bed.Close()
	begin := time.Now()
	if _, err := bed.CreateCluster(ctx, prod, stores); err != nil {
		return nil, err
	}
	h := &Hold{Via: via, Stores: stores, Volumes: volumesPerStore * stores, Regions: stores * regions, ReadyIn: time.Since(begin).Seconds()}
	if err := watch.pauses(plan); err != nil {
		return nil, err
	}
	watch.reset()
	if err := h.backup(ctx, program(bed), "--via", string(via)); err != nil {
		return nil, err
	}
	watch.fill(h)
	if len(bed.Nodes.Cluster(prod).Held()) > 0 {
		return nil, errors.New("the cluster is held after the backup")
	}
	h.checkLimit()
	return h, nil
}

// start makes a testbed whose EC2 answers as fast, and as often, as Amazon's.
func start(ctx context.Context, dir string, stores, regions int, seed int64, watch *observer, change ...func(*ebstest.Rules)) (*testbed.Testbed, *fault.Plan, error) {
	return startVia(ctx, dir, reach.Direct, stores, regions, seed, watch, change...)
}

func startVia(ctx context.Context, dir string, via reach.Via, stores, regions int, seed int64, watch *observer, change ...func(*ebstest.Rules)) (*testbed.Testbed, *fault.Plan, error) {
	rules := ebstest.RealRules()
	rules.SnapshotBase = 2 * time.Second     // what is measured is the hold, not the copying
	rules.Creating = ebstest.Span{}          // nor how the cluster's volumes came to be
	rules.PendingInAccount = 10 * 2 * stores // as an account of this size has had it raised
	rules.StorageGiB, rules.IOPS = nil, nil
	for _, f := range change {
		f(rules)
	}
	plan := &fault.Plan{}
	bed, err := testbed.Start(context.WithoutCancel(ctx), testbed.Config{
		Dir: dir, Nodes: stores, Seed: seed, Faults: plan, Rules: rules, StaticRegions: regions, Observe: watch.observe, DNSNames: via == reach.PortForward,
	})
	return bed, plan, err
}

// backup runs the program and reads its report.
func (h *Hold) backup(ctx context.Context, program Program, flags ...string) error {
	var out bytes.Buffer
	code, err := program(ctx, append([]string{
		"backup", prod.String(), "--storage", storage, "-o", "json", "--pending-quota", strconv.Itoa(20 * h.Stores),
	}, flags...), &out)
	if err != nil {
		return err
	}
	var doc struct {
		Sealed bool
		Report struct {
			Hold struct {
				Seconds, CutSeconds float64
				Attempts            int
				Parts               []Part
			}
			Forward *report.Forward
		}
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		return fmt.Errorf("read the output of a backup that ended with %d: %w", code, err)
	}
	if code != 0 || !doc.Sealed {
		return fmt.Errorf("the backup ended with %d", code)
	}
	r := doc.Report.Hold
	h.Forward = doc.Report.Forward
	h.Seconds, h.Cut, h.Attempts, h.Parts = r.Seconds, r.CutSeconds, r.Attempts, r.Parts
	return nil
}

// checkLimit compares the hold with its limit: what EC2 took for the slowest call, or what its bucket gives, and a little.
func (h *Hold) checkLimit() {
	h.Floor = max(0, float64(h.Stores-bucketSize)/bucketRefill)
	h.Limit, h.By = h.Slowest+overSlowest.Seconds(), "slowest CreateSnapshots + 1.5 s"
	if h.Floor > 0 {
		h.Limit, h.By = 1.1*h.Floor+overFloor.Seconds(), "1.1 × bucket floor + 2 s"
	}
	h.Within = max(h.Seconds, h.Observed) <= h.Limit
}

// observer notes what the stand-ins see of a backup.
type observer struct {
	mu          sync.Mutex
	slowest     time.Duration
	calls       int
	first, last time.Time // of a pause, and of a release
	// read is how many raft states were read, whileHeld those after the first pause.
	read, whileHeld int64
}

func (o *observer) observe(action string, took time.Duration) {
	if action != "CreateSnapshots" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	o.slowest = max(o.slowest, took)
}

func (o *observer) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slowest, o.calls, o.first, o.last = 0, 0, time.Time{}, time.Time{}
	o.read, o.whileHeld = 0, 0
}

// pauses notes when the first pause and the last release come in.
func (o *observer) pauses(plan *fault.Plan) error {
	note := func(at *time.Time, keep bool) func() {
		return func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			if !keep || at.IsZero() {
				*at = time.Now()
			}
		}
	}
	return errors.Join(
		plan.Add(fault.Rule{Point: "pd.SetTTLConfig", Position: fault.Slow, Times: -1, Do: note(&o.first, true)}),
		plan.Add(fault.Rule{Point: "pd.ResumeScheduler", Position: fault.Slow, Times: -1, Do: note(&o.last, false)}),
		plan.Add(fault.Rule{Point: "pd.DropTTLConfig", Position: fault.Slow, Times: -1, Do: note(&o.last, false)}),
		plan.Add(fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.Finish", Position: fault.Slow, Times: -1, Do: note(&o.last, false)}),
	)
}

// raftStates notes when raft states are read.
func (o *observer) raftStates(plan *fault.Plan) error {
	return plan.Add(fault.Rule{Point: "tikv.*.RegionInfo", Position: fault.Slow, Times: -1, Do: func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.read++
		if !o.first.IsZero() {
			o.whileHeld++
		}
	}})
}

func (o *observer) fill(h *Hold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h.Slowest, h.Observed = o.slowest.Seconds(), o.last.Sub(o.first).Seconds()
	h.Throttled = max(0, o.calls-h.Stores)
}
