package testbed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// gcWorker is TiDB's own safe point, which is always there.
const gcWorker = "gc_worker"

// Held lists what is held of the cluster at this moment, as the stand-ins themselves know it: paused schedulers,
// overridden config items, service safe points, and the lease and the import flag of every store that runs.
// Looking changes nothing and goes through no adapter of the program under test.
func (c *Cluster) Held() []string {
	var out []string
	for _, s := range c.PD.Schedulers() {
		if !s.ResumeAt.IsZero() {
			out = append(out, "scheduler "+s.Name)
		}
	}
	for item, value := range c.PD.TTLConfigs() {
		out = append(out, "limit "+item+"="+value)
	}
	for service := range c.PD.ServiceSafePoints() {
		if service != gcWorker {
			out = append(out, "safe point "+service)
		}
	}
	for _, s := range c.Stores() {
		out = append(out, heldOn(s)...)
	}
	slices.Sort(out)
	return out
}

func heldOn(s *tikvtest.Store) []string {
	var out []string
	if gone(s) { // a process that is dead holds nothing, and forgets what it held
		return nil
	}
	if left := s.LeaseLeft(); left > 0 {
		out = append(out, fmt.Sprintf("store %d lease for %s", s.ID(), left.Round(time.Millisecond)))
	}
	if left := s.ImportsDeniedFor(); left > 0 {
		out = append(out, fmt.Sprintf("store %d imports denied for %s", s.ID(), left.Round(time.Millisecond)))
	}
	return out
}

// HeldBut is Held without what starts with one of the prefixes: what another tool holds, and keeps.
func (c *Cluster) HeldBut(theirs ...string) []string {
	return slices.DeleteFunc(c.Held(), func(what string) bool {
		return slices.ContainsFunc(theirs, func(prefix string) bool { return strings.HasPrefix(what, prefix) })
	})
}
