package cluster

import (
	"regexp"
	"strings"
	"sync"
)

// regionZones are the names of the zones of a Region, as "us-west-2a". Those at other places have more behind the
// Region: "us-west-2-lax-1a" is a Local Zone, "us-east-1-wl1-bos-wlz-1" one of Wavelength.
var regionZones = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]+(-[a-z]+)+-[0-9]+[a-z]$`) })

// Kind is what a zone's name says that it is: "Local Zone" or "Wavelength Zone"; "" for a zone of a Region, and for a
// name that is none of these.
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
