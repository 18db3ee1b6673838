package blockvolume_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/kube/typed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const run = cluster.RunID("20261128t120000-abcdef01")

// lab is an API server without controllers: the test makes and deletes the volumes, as a driver does.
type lab struct {
	server *kubetest.Server
	core   *typed.Client
	claims *blockvolume.Claims
	wire   http.Transport
	before atomic.Pointer[func(*http.Request) error] // asked before each request, which its error takes the place of
}

// RoundTrip is the clients' way to the server.
func (l *lab) RoundTrip(r *http.Request) (*http.Response, error) {
	if ask := l.before.Load(); ask != nil {
		if err := (*ask)(r); err != nil {
			return nil, err
		}
	}
	return l.wire.RoundTrip(r)
}

// untilSeenGone returns a context that ends once a claim is gone, at the second look at the volumes: by then the first
// one has given its reason.
func (l *lab) untilSeenGone(t *testing.T, claim blockvolume.Claim) context.Context {
	t.Helper()
	ctx, end := context.WithCancel(within(t, patience))
	t.Cleanup(end)
	seen := false
	l.before.Store(new(func(r *http.Request) error {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/persistentvolumes") ||
			l.server.Get("persistentvolumeclaims", claim.Namespace, claim.Name) != nil:
			return nil
		case !seen:
			seen = true
			return nil
		}
		l.before.Store(nil)
		end()
		return context.DeadlineExceeded
	}))
	return ctx
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{server: kubetest.New(kubetest.Config{Namespace: "tidb"})}
	require.NoError(t, l.server.Start(t.Context()))
	t.Cleanup(l.server.Close)
	var err error
	l.core, err = l.server.Client(l)
	require.NoError(t, err)
	l.claims = blockvolume.New(l.core)
	l.claims.Interval = time.Millisecond
	return l
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

const (
	patience = time.Minute
	short    = 5 * time.Second // for what is refused at once
)

func spec() blockvolume.Spec {
	return blockvolume.Spec{
		Run: run, Namespace: "tidb", Name: blockvolume.NameOf(run, 4, "storage.data-dir"), Class: "gp3", SizeGiB: 10,
		Labels: map[string]string{"tisnap.io/store": "4"}, Content: "an archive",
	}
}

func (l *lab) make(t *testing.T) blockvolume.Claim {
	t.Helper()
	made, err := l.claims.Make(within(t, patience), spec())
	require.NoError(t, err)
	return made
}

// bind makes the claim's volume, of a class that retains it.
func (l *lab) bind(t *testing.T, c blockvolume.Claim, change func(*corev1.PersistentVolume)) {
	t.Helper()
	ctx := within(t, patience)
	claim, err := l.core.PersistentVolumeClaims(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	require.NoError(t, err)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			StorageClassName: *claim.Spec.StorageClassName, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "pd.csi.storage.gke.io", VolumeHandle: "disk-1"},
			},
		},
	}
	change(pv)
	_, err = l.core.PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	require.NoError(t, err)
	if pv.Name == older {
		l.server.SetCreated(l.server.Get("persistentvolumes", "", older), claim.CreationTimestamp.Add(-time.Second))
	}
	claim.Spec.VolumeName = pv.Name
	claim, err = l.core.PersistentVolumeClaims(c.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	require.NoError(t, err)
	claim.Status.Phase = corev1.ClaimBound
	_, err = l.core.PersistentVolumeClaims(c.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func asItIs(*corev1.PersistentVolume) {}

// older is the name of a volume that was there before its claim.
const older = "older"

// A run finds its own claim again; it takes no one else's, and none of another size or for other content.
func TestMake_AgainAndByOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t)
	require.Equal(t, made, l.make(t))
	claim, err := l.core.PersistentVolumeClaims("tidb").Get(within(t, patience), made.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.PersistentVolumeBlock, *claim.Spec.VolumeMode)
	require.Equal(t, "4", claim.Labels["tisnap.io/store"])
	other := spec()
	other.Run = "another"
	_, err = l.claims.Make(within(t, patience), other)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	larger := spec()
	larger.SizeGiB++
	_, err = l.claims.Make(within(t, patience), larger)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	for _, content := range []string{"another archive", ""} {
		another := spec()
		another.Content = content
		_, err = l.claims.Make(within(t, patience), another)
		require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	}
	require.NotEqual(t, made.Name, blockvolume.NameOf("another", 4, "storage.data-dir"))
}

// Without its namespace a claim is never made, and is not waited for.
func TestMake_NoNamespace_FailsAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.server.ForgetNamespace("tidb")
	ctx := within(t, patience)
	_, err := l.claims.Make(ctx, spec())
	require.ErrorContains(t, err, `namespaces "tidb" not found`)
	require.NoError(t, ctx.Err())
}

func TestBound_NamesTheDriversVolume(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*corev1.PersistentVolume)
		want   failure.Kind
	}{
		"block":            {asItIs, failure.Unknown},
		"a file system":    {func(pv *corev1.PersistentVolume) { pv.Spec.VolumeMode = nil }, failure.Unready},
		"of another claim": {func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "u" }, failure.Unready},
		"older":            {func(pv *corev1.PersistentVolume) { pv.Name = older }, failure.Conflict},
		"claim is deleted": {asItIs, failure.NotFound},
		"being deleted":    {asItIs, failure.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			made := l.make(t)
			_, err := l.claims.Bound(within(t, patience), made)
			require.True(t, failure.Is(err, failure.Limited), "%v", err)
			l.bind(t, made, c.change)
			switch name {
			case "claim is deleted":
				l.deleting(t, made)
			case "being deleted":
				pv := l.server.Get("persistentvolumes", "", "pvc-"+made.UID)
				pv.SetFinalizers([]string{"external-attacher/ebs-csi-aws-com"}) // it is attached
				require.NoError(t, l.server.Put(pv))
				require.NoError(t, l.core.PersistentVolumes().Delete(within(t, patience), pv.GetName(), metav1.DeleteOptions{}))
			}
			v, err := l.claims.Bound(within(t, patience), made)
			if c.want != failure.Unknown {
				require.True(t, failure.Is(err, c.want), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "pd.csi.storage.gke.io disk-1", v.Driver+" "+v.Handle)
			made.UID = "another"
			_, err = l.claims.Bound(within(t, patience), made)
			require.True(t, failure.Is(err, failure.NotFound), "%v", err)
		})
	}
}

// deleting deletes a claim that something keeps.
func (l *lab) deleting(t *testing.T, c blockvolume.Claim) {
	t.Helper()
	api := l.core.PersistentVolumeClaims(c.Namespace)
	claim, err := api.Get(within(t, patience), c.Name, metav1.GetOptions{})
	require.NoError(t, err)
	claim.Finalizers = append(claim.Finalizers, "the.test/keeps")
	_, err = api.Update(within(t, patience), claim, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, api.Delete(within(t, patience), c.Name, metav1.DeleteOptions{}))
}

// The volume goes with its claim, whatever the class's policy is, and Remove returns once both are gone.
func TestRemove_WaitsForClaimAndVolume(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t)
	l.bind(t, made, asItIs)
	err := l.claims.Remove(l.untilSeenGone(t, made), made)
	require.ErrorContains(t, err, "its driver has not deleted volume pvc-"+made.UID)
	pv := l.server.Get("persistentvolumes", "", "pvc-"+made.UID)
	require.Equal(t, "Delete", pv.Object["spec"].(map[string]any)["persistentVolumeReclaimPolicy"])
	require.Nil(t, l.server.Get("persistentvolumeclaims", "tidb", made.Name))
	left, err := l.claims.Left(within(t, patience), run, "tidb")
	require.NoError(t, err)
	require.Equal(t, []blockvolume.Claim{made}, left, "another command finds what this one has not seen gone")
	require.NoError(t, l.server.Remove(pv))
	require.NoError(t, l.claims.Remove(within(t, patience), made))
}

// What something else uses stays as it is, also while it is only checked.
func TestRemove_InUse_Stays(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, *lab, blockvolume.Claim){
		"another persistent volume of the disk": func(t *testing.T, l *lab, made blockvolume.Claim) {
			t.Helper()
			l.bind(t, made, asItIs)
			pv, err := l.core.PersistentVolumes().Get(within(t, patience), "pvc-"+made.UID, metav1.GetOptions{})
			require.NoError(t, err)
			pv.ObjectMeta, pv.Spec.ClaimRef = metav1.ObjectMeta{Name: "tikv-0"}, nil
			_, err = l.core.PersistentVolumes().Create(within(t, patience), pv, metav1.CreateOptions{})
			require.NoError(t, err)
		},
		"a pod": func(t *testing.T, l *lab, made blockvolume.Claim) {
			t.Helper()
			l.bind(t, made, asItIs)
			l.pod(t, "tikv-0", made)
		},
		"someone before it": func(t *testing.T, l *lab, made blockvolume.Claim) {
			t.Helper()
			l.bind(t, made, func(pv *corev1.PersistentVolume) { pv.Name = older })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			made := l.make(t)
			use(t, l, made)
			for _, err := range []error{
				l.claims.Unused(within(t, patience), made), l.claims.Remove(within(t, short), made),
			} {
				require.True(t, failure.Is(err, failure.Conflict), "%v", err)
			}
			require.NotNil(t, l.server.Get("persistentvolumeclaims", "tidb", made.Name))
			for _, pv := range l.server.List("persistentvolumes", "") {
				require.Equal(t, "Retain", pv.Object["spec"].(map[string]any)["persistentVolumeReclaimPolicy"])
			}
		})
	}
}

// pod makes one that has the claim.
func (l *lab) pod(t *testing.T, name string, c blockvolume.Claim) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "tikv", Image: "tikv"}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name},
		}}},
	}}
	made, err := l.core.Pods(c.Namespace).Create(within(t, patience), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	return made
}

// Pods that ended use nothing, and those of the run's Job end with that.
func TestUnused_PodsEndedOrOfTheRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t)
	own, ended := l.pod(t, "fill", made), l.pod(t, "ended", made)
	runmark.Put(own, run)
	_, err := l.core.Pods("tidb").Update(within(t, patience), own, metav1.UpdateOptions{})
	require.NoError(t, err)
	ended.Status.Phase = corev1.PodSucceeded
	_, err = l.core.Pods("tidb").UpdateStatus(within(t, patience), ended, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, l.claims.Unused(within(t, patience), made))
}

// A volume is found by its mark when its claim is gone: one that is being deleted is waited for, and a retained one is
// left to the user.
func TestLeft_VolumesWithoutTheirClaims(t *testing.T) {
	t.Parallel()
	for _, policy := range []corev1.PersistentVolumeReclaimPolicy{"Delete", "Retain"} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			made := l.make(t)
			l.bind(t, made, func(pv *corev1.PersistentVolume) { pv.Spec.PersistentVolumeReclaimPolicy = policy })
			require.NoError(t, l.claims.MarkVolume(within(t, patience), made))
			left, err := l.claims.Left(within(t, patience), run, "tidb")
			require.NoError(t, err)
			require.Empty(t, left)
			require.NoError(t, l.server.Remove(l.server.Get("persistentvolumeclaims", "tidb", made.Name)))
			for place, want := range map[string]int{"tidb": 1, "another": 0} {
				left, err = l.claims.Left(within(t, patience), run, place)
				require.NoError(t, err)
				require.Len(t, left, want)
			}
			err = l.claims.Remove(l.untilSeenGone(t, made), made)
			l.before.Store(nil)
			want := map[corev1.PersistentVolumeReclaimPolicy]failure.Kind{"Delete": failure.Limited, "Retain": failure.Conflict}
			require.True(t, failure.Is(err, want[policy]), "%v", err)
			pv := l.server.Get("persistentvolumes", "", "pvc-"+made.UID)
			require.Equal(t, string(policy), pv.Object["spec"].(map[string]any)["persistentVolumeReclaimPolicy"])
			require.NoError(t, l.server.Remove(pv))
			left, err = l.claims.Left(within(t, patience), run, "tidb")
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// Nothing of others is deleted, nor the policy of their volumes changed: not a claim that took the name, and not one that
// is marked for another run.
func TestRemove_ClaimsOfOthers_Stay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t)
	l.bind(t, made, asItIs)
	stranger := made
	stranger.UID = "another"
	require.NoError(t, l.claims.Remove(within(t, patience), stranger))
	stranger = made
	stranger.Run = "another"
	err := l.claims.Remove(within(t, short), stranger)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.NotNil(t, l.server.Get("persistentvolumeclaims", "tidb", made.Name))
	pv := l.server.Get("persistentvolumes", "", "pvc-"+made.UID)
	require.Equal(t, "Retain", pv.Object["spec"].(map[string]any)["persistentVolumeReclaimPolicy"])
	require.Error(t, l.claims.Remove(within(t, patience), blockvolume.Claim{Namespace: "tidb", Name: made.Name}))
}

func TestClass_MakesVolumesOnDemand(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, c := range l.server.List("storageclasses", "") {
		require.NoError(t, l.server.Remove(c))
	}
	_, err := l.claims.Class(within(t, patience), "")
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
	require.NoError(t, l.server.AddStorageClassOf("local", "kubernetes.io/no-provisioner"))
	require.NoError(t, l.server.AddStorageClassOf("disks", "pd.csi.storage.gke.io"))
	_, err = l.claims.Class(within(t, patience), "local")
	require.True(t, failure.Is(err, failure.Unready), "%v", err)
	_, err = l.claims.Class(within(t, patience), "none")
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
	class := l.server.Get("storageclasses", "", "disks")
	class.SetAnnotations(map[string]string{"storageclass.kubernetes.io/is-default-class": "true"})
	require.NoError(t, l.server.Put(class))
	found, err := l.claims.Class(within(t, patience), "")
	require.NoError(t, err)
	require.Equal(t, "disks", found.Name)
}

// What a volume has is noted on its claim, and not on one that took its name.
func TestMark_IsReadByTheNextMake(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t)
	require.Empty(t, made.Filled)
	require.NoError(t, l.claims.Mark(within(t, patience), made, "an archive"))
	require.Equal(t, "an archive", l.make(t).Filled)
	made.UID = "another"
	err := l.claims.Mark(within(t, patience), made, "another archive")
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
	require.Equal(t, "an archive", l.make(t).Filled)
}

// Terms are alternatives, and drivers have labels of their own.
func TestZones_OfAllowedTopologies(t *testing.T) {
	t.Parallel()
	term := func(key string, values ...string) corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: key, Values: values}}}
	}
	for name, c := range map[string]struct {
		terms []corev1.TopologySelectorTerm
		want  []cluster.Zone
	}{
		"none":           {nil, nil},
		"one driver":     {[]corev1.TopologySelectorTerm{term("topology.gke.io/zone", "a", "b")}, []cluster.Zone{"a", "b"}},
		"two labels":     {[]corev1.TopologySelectorTerm{term("topology.kubernetes.io/zone", "a"), term("topology.ebs.csi.aws.com/zone", "b")}, []cluster.Zone{"a", "b"}},
		"one zone":       {[]corev1.TopologySelectorTerm{term("topology.kubernetes.io/zone", "a")}, []cluster.Zone{"a"}},
		"no zone":        {[]corev1.TopologySelectorTerm{term("rack", "r1")}, nil},
		"or without one": {[]corev1.TopologySelectorTerm{term("topology.kubernetes.io/zone", "a"), term("rack", "r1")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			class := &storagev1.StorageClass{AllowedTopologies: c.terms}
			require.Equal(t, c.want, blockvolume.Zones(class))
			require.Equal(t, len(c.want) != 1, blockvolume.AnyZone(class))
		})
	}
}
