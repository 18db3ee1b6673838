package leak

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// hidden is the longest that EC2 hides a new id, in its own time.
const hidden = 20 * time.Second

// striking is a fault of the run, and whether it struck.
type striking struct {
	name string
	hit  atomic.Bool
}

// start makes the testbed with the cluster and an older backup of it, without faults. The other side's habits
// follow the seed: hidden ids, volumes that vanish with their tokens, slow answers, a noisy neighbour.
func (s *state) start(ctx context.Context) error {
	rules := ebstest.QuickRules()
	rules.Invisible = ebstest.Span{Most: time.Duration(s.rng.IntN(int(hidden)))}
	rules.SnapshotSpacing = 0 // 15 s of it is another test
	rules.Latency = map[string]ebstest.Span{}
	for _, action := range mutating() {
		rules.Latency[action] = ebstest.Span{Most: time.Duration(s.rng.IntN(3000)) * time.Millisecond}
	}
	if s.rng.IntN(10) == 0 { // rare: that a token is burned is sure only after a minute of real time
		rules.VanishOneIn = 4
	}
	bed, err := testbed.Start(context.WithoutCancel(ctx), testbed.Config{
		Dir: s.cfg.Dir, Nodes: 3, Scale: s.cfg.Scale, Seed: s.cfg.Seed, Faults: s.faults, Rules: rules,
		TiKV: tikvtest.Options{RecoverCheckInterval: 200 * time.Millisecond},
	})
	if err != nil {
		return err
	}
	s.bed = bed
	if _, err := bed.CreateCluster(ctx, source, 3); err != nil {
		return err
	}
	s.store, err = objstore.Open(ctx, storage, objstore.Config{Region: testbed.Region, Endpoint: bed.AWS()})
	if err != nil {
		return err
	}
	code, err := s.tisnap(ctx, "backup", source.String(), "--name", "old")
	if err == nil && code != 0 {
		err = fmt.Errorf("the first backup, without faults, ended with %d", code)
	}
	return err
}

// mutating lists the EC2 actions that a backup, a restore or a clean-up calls and that change something.
func mutating() []string {
	return []string{"CreateSnapshots", "CreateVolume", "DeleteSnapshot", "DeleteVolume", "ModifyVolume"}
}

// addFaults puts a lost answer on every mutating action, at a random call, and some more of all kinds.
func (s *state) addFaults() error {
	for _, action := range mutating() {
		if err := s.add(fault.Rule{Point: "ec2." + action, Position: fault.After, Nth: 1 + s.rng.IntN(6), Times: 1 + s.rng.IntN(2)}); err != nil {
			return err
		}
	}
	for range s.rng.IntN(4) {
		if err := s.add(s.another()); err != nil {
			return err
		}
	}
	if s.cfg.Kill != nil && s.rng.IntN(3) == 0 {
		action := mutating()[s.rng.IntN(3)]
		return s.add(fault.Rule{
			Point: "ec2." + action, Position: []fault.Position{fault.After, fault.Before}[s.rng.IntN(2)],
			Nth: 1 + s.rng.IntN(6), Do: s.cfg.Kill,
		})
	}
	return nil
}

// another is any fault on a call that changes something, or on a look that clean-up depends on.
func (s *state) another() fault.Rule {
	points := []string{
		"ec2.CreateSnapshots", "ec2.CreateVolume", "ec2.DeleteSnapshot", "ec2.DeleteVolume", "ec2.DescribeVolumes", "ec2.DescribeSnapshots",
		"s3.PutObject", "s3.DeleteObject", "s3.GetObject",
	}
	r := fault.Rule{Point: points[s.rng.IntN(len(points))], Nth: 1 + s.rng.IntN(20), Times: 1 + s.rng.IntN(3)}
	codes := map[string][]string{
		"ec2": {"RequestLimitExceeded", "InternalError", "UnauthorizedOperation", "ServiceUnavailable", "SomethingNew"},
		"s3.": {"SlowDown", "InternalError", "AccessDenied"},
	}[r.Point[:3]]
	switch s.rng.IntN(3) {
	case 0:
		r.Position = fault.After
	case 1:
		r.Position, r.Delay = fault.Slow, time.Duration(s.rng.IntN(500))*time.Millisecond
	default:
		r.Position, r.Code = fault.Before, codes[s.rng.IntN(len(codes))]
	}
	return r
}

func (s *state) add(r fault.Rule) error {
	name := fmt.Sprintf("%s:%s@%d", r.Position, r.Point, r.Nth)
	if r.Code != "" {
		name += ":" + r.Code
	}
	if r.Do != nil {
		name = "kill:" + name
	}
	return s.addNamed(name, r)
}

// addNamed adds a rule, by the name that it has if it struck.
func (s *state) addNamed(name string, r fault.Rule) error {
	mark, do := &striking{name: name}, r.Do
	r.Do = func() {
		mark.hit.Store(true)
		if do != nil {
			do()
		}
	}
	s.struck = append(s.struck, mark)
	return s.faults.Add(r)
}
