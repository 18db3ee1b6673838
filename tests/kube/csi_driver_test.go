package kube_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// driver is a CSI driver without disks. The ids of its volumes have the UIDs of their claims.
type driver struct{ *kubetest.MemoryDisks }

func newDriver() driver { return driver{&kubetest.MemoryDisks{}} }

// Provision notes a volume.
func (d driver) Provision(_ context.Context, v kubetest.NewVolume) (cluster.VolumeID, error) {
	id := cluster.VolumeID("vol-" + strings.TrimPrefix(v.PV, "pvc-"))
	d.Add(id, v.Zone, true)
	return id, nil
}

// drives plays the CSI driver until the test ends: it makes the volumes of claims that a pod is about to use, and deletes
// those whose claims are gone if that is their policy. The stand-in has it from the start.
func (s system) drives(t *testing.T) {
	t.Helper()
	if s.standIn != nil {
		return
	}
	plane, err := kubetest.Connect(t.Context(), s.kubeconfig, t.Logf)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		done.Wait()
		plane.Close()
	})
	done.Go(func() { plane.RunDriver(ctx, "ebs.csi.aws.com", newDriver(), s.namespace) })
}

// addNode adds a node of the stand-in that the pods of the test select.
func (s system) addNode(t *testing.T) {
	t.Helper()
	zone := cluster.Zone("us-west-2a")
	require.NoError(t, s.standIn.AddNode("node", "i-1", zone))
	s.disks.AddInstance("i-1", zone)
	node := s.standIn.Get("nodes", "", "node")
	labels := node.GetLabels()
	labels["tisnap.io/test"] = s.namespace
	node.SetLabels(labels)
	require.NoError(t, s.standIn.Put(node))
}
