package hold_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/hold"
)

func TestHolder_RunName_RoundTrips(t *testing.T) {
	t.Parallel()
	ends := time.Date(2026, 11, 25, 3, 15, 0, 0, time.UTC)
	for _, c := range []struct {
		name   string
		holder hold.Holder
		text   string
	}{
		{"the pod of a Job", hold.Holder{Host: "backup-demo-init-x7k2p", Pod: true, Ends: ends}, "pod backup-demo-init-x7k2p (Job backup-demo-init), which ends it by 2026-11-25T03:15:00Z"},
		{"a pod without an owner", hold.Holder{Host: "toolbox", Pod: true, Ends: ends}, "pod toolbox, which ends it by 2026-11-25T03:15:00Z"},
		{"a host that is called so", hold.Holder{Host: "pod.example.org", Ends: ends}, "host pod.example.org, which ends it by 2026-11-25T03:15:00Z"},
		{"a host", hold.Holder{Host: "ip-10-0-0-1.ec2.internal", Ends: ends}, "host ip-10-0-0-1.ec2.internal, which ends it by 2026-11-25T03:15:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run, holder, ok := hold.SplitHolder(c.holder.Sign("20261125t030000-ab12"))
			require.True(t, ok)
			require.Equal(t, cluster.RunID("20261125t030000-ab12"), run)
			require.Equal(t, c.holder, holder)
			require.Equal(t, c.text, holder.String())
		})
	}
}

// The name is a part of a path of PD's API and of a key of etcd.
func TestHolder_StrangeHost_IsMadeSafe(t *testing.T) {
	t.Parallel()
	signed := hold.Holder{Host: "a/b@c " + strings.Repeat("x", 500), Ends: time.Unix(0, 0)}.Sign("r")
	require.NotContains(t, string(signed), "/")
	require.Less(t, len(signed), 300)
	_, holder, ok := hold.SplitHolder(signed)
	require.True(t, ok)
	require.True(t, strings.HasPrefix(holder.Host, "a-b-c-xxx"), holder.Host)
	for _, other := range []cluster.RunID{"r", "r@a", "r@a@yesterday", "r@a@20261125T031500Z@b"} {
		run, _, ok := hold.SplitHolder(other)
		require.False(t, ok)
		require.Equal(t, other, run)
	}
}

func TestHere_ThePodWhereItIsKnown(t *testing.T) {
	t.Parallel()
	none, inside := map[string]string{}, map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
	named := map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAME": "p-1"}
	for name, c := range map[string]struct {
		env      map[string]string
		hostname string
		want     hold.Holder
	}{
		"outside":               {none, "backup-init-x7k2p", hold.Holder{Host: "backup-init-x7k2p"}},
		"a pod of a Job":        {inside, "backup-init-x7k2p", hold.Holder{Host: "backup-init-x7k2p", Pod: true}},
		"on the node's network": {inside, "ip-10-0-0-1.ec2.internal", hold.Holder{Host: "ip-10-0-0-1.ec2.internal"}},
		"named":                 {named, "ip-10-0-0-1.ec2.internal", hold.Holder{Host: "p-1", Pod: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, hold.Here(func(name string) string { return c.env[name] }, c.hostname))
		})
	}
}
