package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/storage"
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

// lostVolumes are EBS volumes that have outlived a drill of a storage.
type lostVolumes struct {
	drill.EBS
	storage string
}

func (e lostVolumes) AllVolumes(context.Context) ([]ebs.Volume, error) {
	return []ebs.Volume{{ID: "vol-1", Tags: ebs.Tags{
		ebs.TagDrill: "lost", ebs.TagDrillExpires: "2026-01-01T00:00:00Z", ebs.TagStorage: e.storage,
	}}}, nil
}

// Who may not list namespaces or persistent volumes is shown what else there is, and learns what is unknown.
func TestExpiredDrills_MayNotList_NamesTheRestAndWhatIsUnknown(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"", "namespaces", "persistentvolumes"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := kubetest.New(kubetest.Config{Namespace: "tidb"})
			require.NoError(t, server.Start(t.Context()))
			t.Cleanup(server.Close)
			path := filepath.Join(t.TempDir(), "kubeconfig")
			require.NoError(t, server.WriteKubeconfig(path))
			k, err := kube.Open(kube.Config{Kubeconfig: path, Patience: time.Second})
			require.NoError(t, err)
			t.Cleanup(k.Close)
			if what != "" {
				server.Deny("list", what)
			}
			store := objstoretest.NewMemory(nil)
			of, err := storage.Open(t.Context(), store, "v1")
			require.NoError(t, err)
			found, denied, err := expiredDrills(t.Context(), store, k, lostVolumes{storage: of.ID})
			require.NoError(t, err)
			require.Len(t, found, 1)
			require.EqualValues(t, "vol-1", found[0].Volume)
			require.Equal(t, what != "", failure.Is(denied, failure.Denied), "%v", denied)
		})
	}
}
