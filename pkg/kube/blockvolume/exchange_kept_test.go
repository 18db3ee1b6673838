package blockvolume_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// rescue makes someone else's persistent volume of the disk.
func (l *lab) rescue(t *testing.T) {
	t.Helper()
	pv := wanted()
	pv.Name, pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle = "other", "pd.csi.storage.gke.io", "disk-1"
	pv.Spec.ClaimRef.Name, pv.Spec.PersistentVolumeReclaimPolicy = "rescued", corev1.PersistentVolumeReclaimRetain
	_, err := l.core.PersistentVolumes().Create(within(t, patience), pv, metav1.CreateOptions{})
	require.NoError(t, err)
}

// Wherever an exchange ended: a disk that someone else's persistent volume has by then stays, without its claim, too.
func TestRemove_ExchangedDiskOfAnother_Stays(t *testing.T) {
	t.Parallel()
	for n := int32(1); ; n++ {
		l := newLab(t)
		l.drive(t)
		made := l.filled(t)
		killed := l.killed(t, made, n, false)
		l.rescue(t)
		before := l.server.List("persistentvolumes", "")
		for _, err := range []error{
			l.claims.Unused(within(t, patience), made), l.claims.Remove(within(t, short), made),
		} {
			require.True(t, failure.Is(err, failure.Conflict), "kill at write %d: %v", n, err)
		}
		require.Equal(t, before, l.server.List("persistentvolumes", ""), "kill at write %d", n)
		if !killed {
			return
		}
	}
}

// An exchanged volume stays that a claim of the target is about to be bound to: one that names it before it is free, and
// once it is, one that names none. A claim that is being deleted is not.
func TestRemove_ExchangedAndAwaited_Stays(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]bool{"named": false, "free": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.drive(t)
			made := l.filled(t)
			pv, err := l.claims.Exchange(within(t, patience), made, wanted())
			require.NoError(t, err)
			of := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "tikv-0"}, Spec: corev1.PersistentVolumeClaimSpec{
					VolumeName: pv.Name, AccessModes: pv.Spec.AccessModes,
					Resources: corev1.VolumeResourceRequirements{Requests: pv.Spec.Capacity},
				},
			}
			if free {
				of.Spec.VolumeName = ""
				_, err = l.claims.Free(within(t, patience), pv)
				require.NoError(t, err)
			}
			of, err = l.core.PersistentVolumeClaims("tidb").Create(within(t, patience), of, metav1.CreateOptions{})
			require.NoError(t, err)
			left, err := l.claims.Left(within(t, patience), run, "tidb")
			require.NoError(t, err)
			require.Empty(t, left)
			err = l.claims.Remove(within(t, short), made)
			require.True(t, failure.Is(err, failure.Conflict), "%v", err)
			require.Equal(t, corev1.PersistentVolumeReclaimRetain, l.disk(t)[0].Spec.PersistentVolumeReclaimPolicy)
			target := blockvolume.Claim{Namespace: "tidb", Name: of.Name}
			if free {
				require.NoError(t, l.server.Remove(l.server.Get("persistentvolumeclaims", "tidb", of.Name)))
			} else {
				l.deleting(t, target)
			}
			require.NoError(t, l.claims.Remove(within(t, patience), made))
			require.Empty(t, l.disk(t))
		})
	}
}

// Wherever an exchange ends, it is found once, as the claim that was filled: what uses that is seen.
func TestLeft_ExchangedHalf_IsTheClaimOnce(t *testing.T) {
	t.Parallel()
	for n := int32(1); ; n++ {
		l := newLab(t)
		made := l.filled(t)
		killed := l.killed(t, made, n, false)
		claims, err := l.claims.Made(within(t, patience), run, "tidb")
		require.NoError(t, err)
		left, err := l.claims.Left(within(t, patience), run, "tidb")
		require.NoError(t, err)
		all := append(claims, left...)
		require.Len(t, all, 1, "kill at write %d", n)
		require.Equal(t, made.String()+made.UID, all[0].String()+all[0].UID, "kill at write %d", n)
		if !killed {
			return
		}
	}
}

// A volume that a restore made, which carries the run's mark, too, is not one that was filled.
func TestLeft_RestoredVolume_IsNone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	pv := wanted()
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	runmark.Put(pv, run)
	_, err := l.core.PersistentVolumes().Create(within(t, patience), pv, metav1.CreateOptions{})
	require.NoError(t, err)
	left, err := l.claims.Left(within(t, patience), run, "tidb")
	require.NoError(t, err)
	require.Empty(t, left)
}

// While the new persistent volume is being deleted nothing else goes; then it is made again from the claim, and without
// that the disk is gone.
func TestExchange_NewVolumeIsDeleted_NothingElseGoes(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int32{"beside the claim": 3, "alone": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			made := l.filled(t)
			require.True(t, l.killed(t, made, n, false))
			pv := l.server.Get("persistentvolumes", "", "restored-tikv-0")
			pv.SetFinalizers([]string{"the.test/keeps"})
			require.NoError(t, l.server.Put(pv))
			require.NoError(t, l.core.PersistentVolumes().Delete(within(t, patience), pv.GetName(), metav1.DeleteOptions{}))
			before, looks := len(l.disk(t)), 0
			l.before.Store(new(func(r *http.Request) error {
				if looks++; looks != 6 {
					return nil
				}
				l.before.Store(nil)
				require.Len(t, l.server.List("persistentvolumes", ""), before)
				require.Equal(t, before > 1, l.server.Get("persistentvolumeclaims", "tidb", made.Name) != nil)
				ctx, api := within(t, patience), l.core.PersistentVolumes()
				now, err := api.Get(ctx, pv.GetName(), metav1.GetOptions{})
				if err == nil {
					now.Finalizers = nil
					_, err = api.Update(ctx, now, metav1.UpdateOptions{})
				}
				return err
			}))
			again, err := l.claims.Exchange(within(t, patience), made, wanted())
			if before == 1 {
				require.True(t, failure.Is(err, failure.NotFound), "%v", err)
				return
			}
			require.NoError(t, err)
			require.NotEqual(t, pv.GetUID(), again.UID)
			require.Len(t, l.disk(t), 1)
		})
	}
}

// The new persistent volume is retained, whatever someone made of its policy, before anything else goes and before it can
// be bound.
func TestExchange_NewVolumeIsNotRetained_IsRetained(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int32{"beside the claim": 3, "alone": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			made := l.filled(t)
			require.True(t, l.killed(t, made, n, false))
			pv, err := l.core.PersistentVolumes().Get(within(t, patience), "restored-tikv-0", metav1.GetOptions{})
			require.NoError(t, err)
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			_, err = l.core.PersistentVolumes().Update(within(t, patience), pv, metav1.UpdateOptions{})
			require.NoError(t, err)
			l.before.Store(new(func(r *http.Request) error {
				if r.Method == http.MethodDelete {
					l.disk(t)
				}
				return nil
			}))
			pv, err = l.claims.Exchange(within(t, patience), made, wanted())
			require.NoError(t, err)
			require.Equal(t, corev1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
			require.Equal(t, corev1.PersistentVolumeReclaimRetain, l.disk(t)[0].Spec.PersistentVolumeReclaimPolicy)
		})
	}
}
