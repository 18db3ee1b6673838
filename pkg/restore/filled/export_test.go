package filled

import "github.com/tisnap/tisnap/pkg/cluster"

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
