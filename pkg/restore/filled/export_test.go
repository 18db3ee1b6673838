package filled

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// Spread is spread, for tests.
var Spread = spread

// Allowed is allowed of classes that may make volumes in these zones.
func Allowed(nodes []cluster.Zone, of ...[]cluster.Zone) ([]cluster.Zone, error) {
	var classes []class
	for _, zones := range of {
		classes = append(classes, class{name: "disks", zones: zones})
	}
	return allowed(nodes, classes)
}

// Choose is choose of classes that may make volumes in all zones.
func Choose(
	planned []volumes.Volume, chosen Zones, nodes []cluster.Zone, rules []podnodes.Rules, admitted [][]cluster.Zone,
) (map[cluster.StoreID]cluster.Zone, error) {
	return choose(planned, chosen, nil, nodes, tikv{rules, admitted})
}

// Recorded is what a process that fills the volumes of the plan records.
func (m *Maker) Recorded() *journal.FillVolumes {
	return &journal.FillVolumes{Archive: m.source.ID, Classes: m.classes}
}

// Beside are the rules of the pods of the stores' volumes that are filled.
func (m *Maker) Beside() map[uint64]podnodes.Rules { return m.fill.Options.Beside }

// OfDriver is ofDriver.
func (m *Maker) OfDriver(v *Volume) error { return m.ofDriver(v) }
