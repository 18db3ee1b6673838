package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/runs"
)

func TestDrillItemOf_YoungerThanTheLimit_IsKept(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	r := &runs.Run{}
	r.ID, r.Last = "drill-1", now.Add(-59*time.Minute)
	it := drillItemOf(r, time.Hour, now)
	require.Equal(t, gc.ActionKeep, it.Action)
	require.Contains(t, it.Reason, "59m0s ago (limit 1h0m0s)")
	r.Last = now.Add(-time.Hour)
	require.Equal(t, gc.ActionDelete, drillItemOf(r, time.Hour, now).Action)
}

func TestDrillClean_ExpiredCage_NamesTheCommand(t *testing.T) {
	t.Parallel()
	c := cage.Cage{Namespace: "tisnap-drill-lost", Run: "lost"}
	doc := &drillCleanDoc{Expired: []expiredDrill{expiredCageOf(&c)}}
	var out strings.Builder
	require.NoError(t, doc.table(&out, view{}))
	require.Contains(t, out.String(), "kubectl delete namespace tisnap-drill-lost")
	require.Contains(t, out.String(), "tisnap.io/drill=lost")
	require.NotContains(t, out.String(), "no drill left anything")
}

func TestExpiredVolume_NamesTheCommands(t *testing.T) {
	t.Parallel()
	v := ebs.Volume{ID: "vol-1", Tags: ebs.Tags{ebs.TagDrill: "lost"}}
	require.Contains(t, expiredVolumeOf(&v, "").ToDo, "in use, aws ec2 delete-volume --volume-id vol-1")
	require.Contains(t, expiredVolumeOf(&v, "pv-1").ToDo, "in use, kubectl delete pv pv-1, then aws ec2 delete-volume --volume-id vol-1")
}
