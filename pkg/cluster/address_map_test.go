package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestAddressMap_KeepsOrMapsPorts(t *testing.T) {
	t.Parallel()
	m, err := cluster.ParseAddressMap([]string{
		"a.svc=10.0.0.1", "b.svc:20160=127.0.0.1:31001", "b.svc=10.0.0.2", "C.svc = bastion:9000", "d.svc=::1", "e.svc=[fe80::1]:7", "a.svc=10.0.0.1",
	})
	require.NoError(t, err)
	for address, want := range map[string]string{
		"a.svc:20160":    "10.0.0.1:20160",
		"A.SVC:2379":     "10.0.0.1:2379",
		"b.svc:20160":    "127.0.0.1:31001",
		"b.svc:20180":    "10.0.0.2:20180",
		"c.svc:20160":    "bastion:9000",
		"d.svc:20160":    "[::1]:20160",
		"e.svc:20160":    "[fe80::1]:7",
		"other.svc:2379": "other.svc:2379",
		"a.svc.x:2379":   "a.svc.x:2379",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, want, m.Dial(address))
		})
	}
	assert.Equal(t, "a.svc:1", cluster.AddressMap{}.Dial("a.svc:1"))
}

func TestParseAddressMap_RefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", "a", "a=", "=1.2.3.4", "a=1.2.3.4=5", "http://a=1.2.3.4", "a=http://b", "a:=1.2.3.4", "a=b c", "a=1:2:3"} {
		t.Run(entry, func(t *testing.T) {
			t.Parallel()
			_, err := cluster.ParseAddressMap([]string{entry})
			assert.True(t, failure.Is(err, failure.Usage), "%v", err)
		})
	}
	_, err := cluster.ParseAddressMap([]string{"a=1.2.3.4", "a=1.2.3.5"})
	assert.ErrorContains(t, err, "a is at 1.2.3.4 already")
}
