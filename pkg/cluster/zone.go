package cluster

import (
	"regexp"
	"strings"
	"sync"
)

// regionZones matches the names of a Region's own zones, such as "us-west-2a". Others have more after the Region:
// "us-west-2-lax-1a" is a Local Zone, "us-east-1-wl1-bos-wlz-1" a Wavelength Zone.
var regionZones = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]+(-[a-z]+)+-[0-9]+[a-z]$`) })

// Kind returns the zone's kind by its name: "Local Zone" or "Wavelength Zone"; "" for a Region's own zone or any other
// name.
func (z Zone) Kind() string {
	name := string(z)
	switch {
	case regionZones().MatchString(name) || strings.Count(name, "-") < 4:
		return ""
	case strings.Contains(name, "-wl"):
		return "Wavelength Zone"
	}
	return "Local Zone"
}
