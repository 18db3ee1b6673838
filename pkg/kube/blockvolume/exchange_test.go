package blockvolume_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/wait"
)

// wanted is the persistent volume that a pod of the target mounts.
func wanted() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "restored-tikv-0", Labels: map[string]string{"app": "tikv"},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com", "kept": "yes"},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:  []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:     corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			MountOptions: []string{"noatime"}, StorageClassName: "the target's",
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "tidb", Name: "tikv-0"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1", FSType: "xfs"},
			},
		},
	}
}

// provisioned is what a driver makes of a volume.
func provisioned(pv *corev1.PersistentVolume) {
	pv.Annotations = map[string]string{
		"pv.kubernetes.io/provisioned-by":                       "pd.csi.storage.gke.io",
		"volume.kubernetes.io/provisioner-deletion-secret-name": "s",
	}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	pv.Spec.CSI.VolumeAttributes = map[string]string{"kind": "fast"}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"zone-b"},
		}}}},
	}}
}

// filled makes a claim with a volume that is filled.
func (l *lab) filled(t *testing.T) blockvolume.Claim {
	t.Helper()
	made := l.make(t)
	l.bind(t, made, provisioned)
	require.NoError(t, l.claims.MarkVolume(within(t, patience), made))
	require.NoError(t, l.claims.Mark(within(t, patience), made, "an archive"))
	return made
}

// disk lists the persistent volumes of the disk, and checks that no two of them may delete it.
func (l *lab) disk(t *testing.T) []corev1.PersistentVolume {
	t.Helper()
	list, err := l.core.PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, pv := range list.Items {
		require.Equal(t, "disk-1", pv.Spec.CSI.VolumeHandle)
		if len(list.Items) > 1 {
			require.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy, pv.Name)
		}
	}
	return list.Items
}

// drive deletes released volumes with the policy Delete, as a driver does, until the test ends. None of them may be one
// of two of the disk.
func (l *lab) drive(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	twice := false
	t.Cleanup(func() {
		cancel()
		<-done
		require.False(t, twice, "a disk was deleted that another persistent volume had")
	})
	go func() {
		defer close(done)
		_ = wait.Until(ctx, wait.Every(l.claims.Interval), func() (bool, error) { return false, l.reclaim(ctx, &twice) })
	}()
}

func (l *lab) reclaim(ctx context.Context, twice *bool) error {
	list, err := l.core.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		pv := &list.Items[i]
		if of := pv.Spec.ClaimRef; of.UID == "" || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
			continue
		}
		found, err := l.core.PersistentVolumeClaims("tidb").Get(ctx, pv.Spec.ClaimRef.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && found.UID != pv.Spec.ClaimRef.UID {
			*twice = *twice || len(list.Items) > 1
			_ = l.core.PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{})
		}
	}
	return nil
}

// The volume of a filled claim becomes one with a file system: of the same disk, where that is, for the claim of the
// target alone, once it may be bound. Only then can it be.
func TestExchange_TakesThePlaceOfTheClaim(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.filled(t)
	old := l.disk(t)[0]
	pv, err := l.claims.Exchange(within(t, patience), made, wanted())
	require.NoError(t, err)
	require.Nil(t, l.server.Get("persistentvolumeclaims", "tidb", made.Name))
	all := l.disk(t)
	require.Len(t, all, 1)
	require.Equal(t, pv.UID, all[0].UID)
	require.Equal(t, "restored-tikv-0", pv.Name)
	require.Equal(t, corev1.PersistentVolumeFilesystem, *pv.Spec.VolumeMode)
	require.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
	csi := *old.Spec.CSI
	csi.FSType = "xfs"
	require.Equal(t, csi, *pv.Spec.CSI)
	require.Equal(t, old.Spec.NodeAffinity, pv.Spec.NodeAffinity)
	require.Equal(t, "the target's", pv.Spec.StorageClassName)
	require.Equal(t, "10Gi", pv.Spec.Capacity.Storage().String())
	require.Equal(t, []string{"noatime"}, pv.Spec.MountOptions)
	require.Equal(t, "tikv", pv.Labels["app"])
	require.True(t, runmark.MadeBy(pv, run))
	require.True(t, blockvolume.IsFilled(pv))
	require.Equal(t, "pd.csi.storage.gke.io", pv.Annotations["pv.kubernetes.io/provisioned-by"])
	require.Equal(t, "s", pv.Annotations["volume.kubernetes.io/provisioner-deletion-secret-name"])
	require.Equal(t, "yes", pv.Annotations["kept"])
	require.Equal(t, "tidb/tikv-0", pv.Spec.ClaimRef.Namespace+"/"+pv.Spec.ClaimRef.Name)
	require.Equal(t, made.UID, string(pv.Spec.ClaimRef.UID), "no claim is bound to it")
	again, err := l.claims.Exchange(within(t, patience), made, wanted())
	require.NoError(t, err)
	require.Equal(t, pv, again)
	for range 2 {
		pv, err = l.claims.Free(within(t, patience), pv)
		require.NoError(t, err)
		require.Empty(t, pv.Spec.ClaimRef.UID)
	}
	again, err = l.claims.Exchange(within(t, patience), made, wanted())
	require.NoError(t, err)
	require.Equal(t, pv.ResourceVersion, again.ResourceVersion, "the same call after that changes nothing")
	left, err := l.claims.Left(within(t, patience), run, "tidb")
	require.NoError(t, err)
	require.Equal(t, made.UID, left[0].UID)
}

// dying is the transport of a process that is killed at a write, before it arrives or after that.
type dying struct {
	after  bool
	writes atomic.Int32 // that are still to come
}

var errKilled = errors.New("killed")

func (d *dying) RoundTrip(r *http.Request) (*http.Response, error) {
	left := int32(1)
	if r.Method != http.MethodGet {
		left = d.writes.Add(-1)
	}
	if left < 0 || left == 0 && !d.after {
		return nil, errKilled
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if left == 0 && err == nil {
		_ = answer.Body.Close()
		return nil, errKilled
	}
	return answer, err
}

// killed exchanges the claim's volume in a process that is killed at the nth write, and reports whether it was.
func (l *lab) killed(t *testing.T, made blockvolume.Claim, n int32, after bool) bool {
	t.Helper()
	over := &dying{after: after}
	over.writes.Store(n)
	core, err := l.server.Client(over)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	claims := blockvolume.New(core)
	claims.Interval = l.claims.Interval
	go func() { // a process that is dead does not ask again
		_ = wait.Until(ctx, wait.Every(claims.Interval), func() (bool, error) { return over.writes.Load() <= 0, nil })
		cancel()
	}()
	pv, err := claims.Exchange(ctx, made, wanted())
	if err == nil {
		_, err = claims.Free(ctx, pv)
	}
	require.True(t, err == nil || ctx.Err() != nil, "%v", err)
	return err != nil
}

// Wherever an exchange ends, one persistent volume has the disk, never two may delete it, and the same call continues
// it.
func TestExchange_Killed_Continues(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, after := range []bool{false, true} {
		kills := int32(0)
		for n := int32(1); ; n++ {
			made := l.filled(t)
			if !l.killed(t, made, n, after) {
				require.NoError(t, l.server.Remove(l.server.Get("persistentvolumes", "", "restored-tikv-0")))
				break
			}
			kills++
			require.NotEmpty(t, l.disk(t), "kill at write %d", n)
			pv, err := l.claims.Exchange(within(t, patience), made, wanted())
			require.NoError(t, err)
			require.Len(t, l.disk(t), 1)
			pv, err = l.claims.Free(within(t, patience), pv)
			require.NoError(t, err)
			require.NoError(t, l.server.Remove(l.server.Get("persistentvolumes", "", pv.Name)))
		}
		require.GreaterOrEqual(t, kills, int32(4), "it retains, makes, deletes two, and frees")
	}
}

// Wherever an exchange ends, the disk is found by its run's mark, and goes.
func TestRemove_ExchangedHalf_TakesTheDiskAlong(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.drive(t)
	for n := int32(1); ; n++ {
		made := l.filled(t)
		killed := l.killed(t, made, n, true)
		claims, err := l.claims.Made(within(t, patience), run, "tidb")
		require.NoError(t, err)
		left, err := l.claims.Left(within(t, patience), run, "tidb")
		require.NoError(t, err)
		require.NotEmpty(t, append(claims, left...))
		for _, one := range append(claims, left...) {
			require.Equal(t, made.UID, one.UID)
			require.NoError(t, l.claims.Remove(within(t, patience), one), "kill at write %d", n)
		}
		require.Empty(t, l.disk(t))
		require.Nil(t, l.server.Get("persistentvolumeclaims", "tidb", made.Name))
		if !killed {
			return
		}
	}
}

// An exchanged volume that the target's claim has is not removed, whoever asks; without that claim it is.
func TestRemove_ExchangedAndBound_Stays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.drive(t)
	made := l.filled(t)
	pv, err := l.claims.Exchange(within(t, patience), made, wanted())
	require.NoError(t, err)
	pv, err = l.claims.Free(within(t, patience), pv)
	require.NoError(t, err)
	of := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "tikv-0"}, Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: pv.Name, AccessModes: pv.Spec.AccessModes,
			Resources: corev1.VolumeResourceRequirements{Requests: pv.Spec.Capacity},
		},
	}
	of, err = l.core.PersistentVolumeClaims("tidb").Create(within(t, patience), of, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, bound := range []bool{false, true} {
		if bound {
			pv.Spec.ClaimRef.UID = of.UID
			pv, err = l.core.PersistentVolumes().Update(within(t, patience), pv, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
		left, err := l.claims.Left(within(t, patience), run, "tidb")
		require.NoError(t, err)
		require.Empty(t, left)
		err = l.claims.Remove(within(t, short), made)
		require.True(t, failure.Is(err, failure.Conflict), "%v", err)
		require.Equal(t, corev1.PersistentVolumeReclaimRetain, l.disk(t)[0].Spec.PersistentVolumeReclaimPolicy)
	}
	require.NoError(t, l.server.Remove(l.server.Get("persistentvolumeclaims", "tidb", "tikv-0")))
	require.NoError(t, l.claims.Remove(within(t, patience), made))
	require.Empty(t, l.disk(t))
}

// What is not the run's own, filled, and unused is not exchanged: nothing is changed.
func TestExchange_InUse_Refused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		use  func(*testing.T, *lab, *blockvolume.Claim)
		want failure.Kind
	}{
		"a pod": {func(t *testing.T, l *lab, made *blockvolume.Claim) {
			t.Helper()
			l.pod(t, "any", *made)
		}, failure.Conflict},
		"a pod of the run's Job": {func(t *testing.T, l *lab, made *blockvolume.Claim) {
			t.Helper()
			pod := l.pod(t, "fill", *made)
			runmark.Put(pod, run)
			_, err := l.core.Pods("tidb").Update(within(t, patience), pod, metav1.UpdateOptions{})
			require.NoError(t, err)
		}, failure.Conflict},
		"another persistent volume of the disk": {func(t *testing.T, l *lab, made *blockvolume.Claim) {
			t.Helper()
			l.rescue(t)
		}, failure.Conflict},
		"another run": {func(_ *testing.T, _ *lab, made *blockvolume.Claim) { made.Run = "another" }, failure.Conflict},
		"another claim of its name": {func(_ *testing.T, _ *lab, made *blockvolume.Claim) {
			made.UID = "another"
		}, failure.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			made := l.filled(t)
			c.use(t, l, &made)
			_, err := l.claims.Exchange(within(t, short), made, wanted())
			require.Equal(t, c.want, failure.KindOf(err), "%v", err)
			require.Nil(t, l.server.Get("persistentvolumes", "", "restored-tikv-0"))
			require.NotNil(t, l.server.Get("persistentvolumeclaims", "tidb", made.Name))
			pv, err := l.core.PersistentVolumes().Get(within(t, patience), "pvc-"+string(l.server.Get("persistentvolumeclaims",
				"tidb", made.Name).GetUID()), metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, corev1.PersistentVolumeReclaimDelete, pv.Spec.PersistentVolumeReclaimPolicy)
		})
	}
}

// A claim that is not filled is not exchanged, and a name that someone else's persistent volume has is not taken.
func TestExchange_NotFilledOrNameTaken_Refused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t)
	l.bind(t, made, provisioned)
	_, err := l.claims.Exchange(within(t, short), made, wanted())
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.NoError(t, l.claims.Mark(within(t, patience), made, "an archive"))
	other := wanted()
	other.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	_, err = l.core.PersistentVolumes().Create(within(t, patience), other, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = l.claims.Exchange(within(t, short), made, wanted())
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, fmt.Sprintf("persistent volume %s is there already", other.Name))
	require.NotNil(t, l.server.Get("persistentvolumeclaims", "tidb", made.Name))
}
