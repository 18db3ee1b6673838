package round

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// markTrouble draws what goes wrong while a backup reads the regions' raft states, by the seed: in a third of the seeds
// nothing does. The backup has fewer marks then or none, and is as good.
func markTrouble(seed int64, c *testbed.Cluster, regions int) (string, []fault.Rule) {
	rng := rand.New(rand.NewPCG(uint64(seed), 0x3a4b))
	stores := c.Stores()
	one := "tikv." + strconv.FormatUint(stores[rng.IntN(len(stores))].ID(), 10) + ".RegionInfo"
	rule := fault.Rule{Point: "tikv.*.RegionInfo", Nth: 1 + rng.IntN(regions), Times: 1 + rng.IntN(regions)}
	var text string
	switch n := rng.IntN(12); {
	case n < 4:
		return "no trouble with marks", nil
	case n < 6:
		text, rule = "a store without raft states", fault.Rule{Point: one, Code: "Unimplemented", Times: -1}
	case n == 6:
		text, rule = "no store with raft states", fault.Rule{Point: rule.Point, Code: "Unimplemented", Times: -1}
	case n == 7:
		text, rule = "a store that refuses raft states", fault.Rule{Point: one, Code: "Unavailable", Times: -1}
	case n == 8:
		text, rule.Code = fmt.Sprintf("%d raft states refused from call %d on", rule.Times, rule.Nth), "Unavailable"
	case n == 9:
		text, rule.Position = fmt.Sprintf("%d raft states lost from call %d on", rule.Times, rule.Nth), fault.After
	case n == 10:
		rule.Position, rule.Delay = fault.Slow, time.Duration(20+rng.IntN(500))*time.Millisecond
		text = fmt.Sprintf("%d raft states %s late from call %d on", rule.Times, rule.Delay, rule.Nth)
	default:
		rule.Position, rule.Times = fault.Stall, 1+rng.IntN(3)
		text = fmt.Sprintf("%d raft states never answered from call %d on", rule.Times, rule.Nth)
	}
	return text, []fault.Rule{rule}
}

// troubleMarks puts what markTrouble draws into force.
func (s *state) troubleMarks(c *testbed.Cluster) error {
	if !s.cfg.MarkTrouble {
		return nil
	}
	text, rules := markTrouble(s.cfg.Seed, c, s.cfg.Regions)
	s.result.MarkTrouble = text
	for _, rule := range rules {
		if err := s.cfg.Faults.Add(rule); err != nil {
			return err
		}
	}
	return nil
}
