package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// RestoreLimits are the shares of the published time that a restore may take, by the share of regions that were written to
// after the backup's marks.
func RestoreLimits() []RestoreLimit {
	return []RestoreLimit{{Changed: 1, AtMost: 0.9}, {Changed: 0.1, AtMost: 0.5}, {Changed: 0.01, AtMost: 0.4}}
}

// RestoreLimit is one of them.
type RestoreLimit struct{ Changed, AtMost float64 }

// Restore is one restore of the model of the published case. All seconds are the model's.
type Restore struct {
	Stores  int     `json:"stores"`
	Regions int     `json:"regions"`
	Changed float64 `json:"changedShare"`
	// Flashed and Unchanged are the regions that were flashed back, and that were not.
	Flashed   int     `json:"flashed"`
	Unchanged int     `json:"unchanged"`
	Seconds   float64 `json:"seconds"`
	// Least is what the model's systems take of it, whatever the program does, and Published the published time.
	Least     float64 `json:"leastSeconds"`
	Published float64 `json:"publishedSeconds"`
	// Share is Seconds of Published, which must be at most AtMost, and LeastShare Least of Published.
	Share      float64        `json:"share"`
	LeastShare float64        `json:"leastShare"`
	AtMost     float64        `json:"atMost"`
	Met        bool           `json:"met"`
	Phases     []RestorePhase `json:"phases"`
	Speed      float64        `json:"speed"` // seconds of the model in one of the clock
}

// RestorePhase is a phase as the program reports it. Overlap is for how long one that began before it ran too.
type RestorePhase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Overlap float64 `json:"overlapSeconds"`
}

// RestoreConfig is how large the model is, and how much faster than the clock its time passes. What this machine needs for
// its own work counts as so much longer.
type RestoreConfig struct {
	Regions int
	Speed   float64
	Seed    int64
	Limits  []RestoreLimit
}

// MeasureRestores backs a cluster of the published size up, with marks, and restores it once for each limit.
func MeasureRestores(ctx context.Context, program func(*testbed.Testbed) Program, cfg RestoreConfig) ([]*Restore, error) {
	dir, err := os.MkdirTemp("", "tisnap-restore-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	m := &modelRuntime{clock: timescale.New(cfg.Speed), clusters: map[cluster.Name]*modelCluster{}}
	rules := ebstest.QuickRules()
	rules.Creating = ebstest.Span{Least: modelVolumes, Most: modelVolumes}
	bed, err := testbed.Start(context.WithoutCancel(ctx), testbed.Config{
		Dir: dir, Nodes: publishedStores, Scale: cfg.Speed, Seed: cfg.Seed, Rules: rules, StaticRegions: cfg.Regions / publishedStores,
		Runtime: func(r kubetest.Runtime) kubetest.Runtime {
			m.Runtime = r
			return m
		},
	})
	if err != nil {
		return nil, err
	}
	defer bed.Close()
	m.bed = bed
	run := program(bed)
	backup, err := m.backUp(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("back up: %w", err)
	}
	var all []*Restore
	for i, limit := range cfg.Limits {
		r, err := m.restore(ctx, run, backup, cluster.Name{Namespace: prod.Namespace, Name: fmt.Sprintf("copy-%d", i+1)}, limit)
		if err != nil {
			return all, fmt.Errorf("%g %% of the regions changed: %w", 100*limit.Changed, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// backUp makes the cluster, backs it up and deletes it. It returns the backup's id.
func (m *modelRuntime) backUp(ctx context.Context, program Program) (string, error) {
	c, err := m.bed.CreateCluster(ctx, prod, publishedStores)
	if err != nil {
		return "", err
	}
	if err := m.readRegions(ctx, c); err != nil {
		return "", err
	}
	var doc struct{ Backup string }
	err = call(ctx, program, &doc, "backup", prod.String(), "--storage", storage, "-o", "json")
	if err != nil {
		return "", err
	}
	_, err = m.bed.DestroyCluster(ctx, prod)
	return doc.Backup, err
}

// readRegions notes the cluster's regions, and where all their logs end.
func (m *modelRuntime) readRegions(ctx context.Context, c *testbed.Cluster) error {
	oracle, err := pd.Open(ctx, pd.Config{Addresses: c.PD.URLs()})
	if err != nil {
		return err
	}
	defer oracle.Close()
	regions, err := oracle.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return err
	}
	for i := range regions {
		m.regions = append(m.regions, metaOf(&regions[i]))
	}
	client := tikv.Open(tikv.Config{})
	defer client.Close()
	for _, s := range c.Stores() {
		if cluster.StoreID(s.ID()) == regions[0].Leader.Store {
			state, err := client.RaftState(ctx, s.Addr(), regions[0].ID)
			m.end = mark{term: state.Term, index: state.Last}
			return err
		}
	}
	return errors.New("the first region has no leader")
}

func metaOf(r *cluster.Region) *metapb.Region {
	meta := &metapb.Region{
		Id: uint64(r.ID), StartKey: r.Keys.Start, EndKey: r.Keys.End, RegionEpoch: &metapb.RegionEpoch{ConfVer: r.ConfVer, Version: r.Version},
	}
	for _, p := range r.Peers {
		meta.Peers = append(meta.Peers, &metapb.Peer{Id: uint64(p.ID), StoreId: uint64(p.Store)})
	}
	return meta
}

// restore restores the backup once, and checks that the changed regions were flashed back and no others.
func (m *modelRuntime) restore(ctx context.Context, program Program, backup string, name cluster.Name, limit RestoreLimit) (*Restore, error) {
	c := m.add(name, limit.Changed)
	var doc struct {
		Restored bool
		Report   struct {
			TotalSeconds float64
			Phases       []struct {
				Name                    string
				Seconds, OverlapSeconds float64
			}
			Regions struct{ Total, Unchanged, Flashed int }
		}
	}
	err := call(ctx, program, &doc, "restore", backup, "--to", name.String(), "--storage", storage, "-o", "json")
	if err != nil {
		return nil, err
	}
	took, speed := doc.Report, m.clock.Factor()
	r := &Restore{
		Stores: publishedStores, Regions: len(m.regions), Changed: limit.Changed, Flashed: took.Regions.Flashed, Unchanged: took.Regions.Unchanged,
		Seconds: speed * took.TotalSeconds, Least: leastSeconds(limit.Changed), Published: publishedTotal.Seconds(), AtMost: limit.AtMost, Speed: speed,
	}
	for _, p := range took.Phases {
		r.Phases = append(r.Phases, RestorePhase{Name: p.Name, Seconds: speed * p.Seconds, Overlap: speed * p.OverlapSeconds})
	}
	r.checkLimits()
	if err := c.check(doc.Restored, r); err != nil {
		return nil, err
	}
	_, err = m.bed.DestroyCluster(ctx, name)
	return r, err
}

// check proves by the stores' own count that all changed regions were flashed back, and no others.
func (c *modelCluster) check(restored bool, r *Restore) error {
	flashed := 0
	for _, s := range c.all() {
		flashed += int(s.Counts().Flashbacks.Load())
	}
	want := (r.Regions + c.changed - 1) / c.changed
	if !restored || flashed != want || r.Flashed != want || r.Unchanged != r.Regions-want {
		return fmt.Errorf("%d regions have changed, and the stores flashed %d back (restored: %t, flashed %d, unchanged %d)",
			want, flashed, restored, r.Flashed, r.Unchanged)
	}
	return nil
}

func (r *Restore) checkLimits() {
	r.Share, r.LeastShare = r.Seconds/r.Published, r.Least/r.Published
	r.Met = r.Share <= r.AtMost
}

// String is the restore on one line.
func (r *Restore) String() string {
	text := fmt.Sprintf("%3.0f %% of the regions changed: %6.0f s, %4.1f %% of the published %s, must be at most %.0f %%; floor of the model's delays %.1f %%",
		100*r.Changed, r.Seconds, 100*r.Share, publishedTotal, 100*r.AtMost, 100*r.LeastShare)
	if !r.Met {
		text += " NOT MET"
	}
	return text
}

// call runs the program, which has to succeed, and reads what it prints.
func call(ctx context.Context, program Program, doc any, args ...string) error {
	var out bytes.Buffer
	code, err := program(ctx, args, &out)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("tisnap %s ended with %d", args[0], code)
	}
	return json.Unmarshal(out.Bytes(), doc)
}
