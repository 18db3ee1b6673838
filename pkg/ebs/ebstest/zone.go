package ebstest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// zoneID is a zone's name that is the same in all accounts: usw2-az1.
func (s *Server) zoneID(zone cluster.Zone) string {
	if id, ok := s.cfg.ZoneIDs[zone]; ok {
		return id
	}
	return fmt.Sprintf("%s-az%d", shortRegion(s.cfg.Region), slices.Index(s.cfg.Zones, zone)+1)
}

func (s *Server) zoneOfID(id string) (cluster.Zone, error) {
	for _, zone := range s.cfg.Zones {
		if s.zoneID(zone) == id {
			return zone, nil
		}
	}
	return "", refusal("InvalidZone.NotFound", "The zone '%s' does not exist.", id)
}

// shortRegion is a region as zone ids spell it: us-west-2 is usw2, ap-southeast-1 is apse1.
func shortRegion(region string) string {
	for _, word := range []string{"north", "south", "east", "west", "central"} {
		region = strings.ReplaceAll(region, word, word[:1])
	}
	return strings.ReplaceAll(region, "-", "")
}
