package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tisnap/tisnap/pkg/cluster"
)

func TestZone_Kind_ByName(t *testing.T) {
	t.Parallel()
	for zone, kind := range map[cluster.Zone]string{
		"us-west-2a": "", "us-gov-west-1b": "", "ap-southeast-12c": "", "us-isob-east-1a": "", "": "", "2a": "", "usw2-az1": "",
		"us-west-2-lax-1a": "Local Zone", "us-east-1-atl-2a": "Local Zone",
		"us-east-1-wl1-bos-wlz-1": "Wavelength Zone",
	} {
		t.Run(string(zone), func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, kind, zone.Kind())
		})
	}
}
