package claims_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tisnap/tisnap/pkg/archive/claims"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/kube/typed"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const run = cluster.RunID("a run")

// lab is an API server without controllers: the test is them, between the requests of the command.
type lab struct {
	server *kubetest.Server
	core   *typed.Client // the test's own
	filler *claims.Filler

	mu     sync.Mutex
	asked  func(*http.Request) // is called with each request of the command
	before map[string]func()   // called once, before the first request of the command such as "POST jobs"
}

// RoundTrip implements http.RoundTripper for the command.
func (l *lab) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	if l.asked != nil {
		l.asked(r)
	}
	l.mu.Unlock()
	for name := range strings.SplitSeq(r.URL.Path, "/") {
		l.mu.Lock()
		act := l.before[r.Method+" "+name]
		delete(l.before, r.Method+" "+name)
		l.mu.Unlock()
		if act != nil {
			act()
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{server: kubetest.New(kubetest.Config{Namespace: "tidb"}), before: map[string]func(){}}
	require.NoError(t, l.server.Start(t.Context()))
	t.Cleanup(l.server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	path := t.TempDir() + "/kubeconfig"
	require.NoError(t, l.server.WriteKubeconfig(path))
	typed.Quiet()
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	config.QPS = -1 // client-go's own limit is 5 a second
	l.core, err = typed.New(config, http.DefaultClient)
	require.NoError(t, err)
	command, err := typed.New(config, &http.Client{Transport: l})
	require.NoError(t, err)
	l.filler = &claims.Filler{
		Claims: blockvolume.New(command), Jobs: workers.New(command),
		Options: claims.Options{
			Run: run, Archive: "archive-1", Namespace: "tidb", Class: "files", Workers: 1,
			Pod: workers.Spec{Image: "tisnap:v1"},
		},
	}
	l.filler.Claims.Interval, l.filler.Jobs.Interval = time.Millisecond, time.Millisecond
	return l
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func archive() *format.Archive {
	return &format.Archive{Stores: []format.Store{{ID: 4, Volumes: []format.Volume{{Role: "data", Size: 10}}}}}
}

// claim is the archive's only one.
func (l *lab) claim(t *testing.T) *corev1.PersistentVolumeClaim {
	t.Helper()
	c, err := l.core.PersistentVolumeClaims("tidb").
		Get(within(t), blockvolume.NameOf(run, 4, "data"), metav1.GetOptions{})
	require.NoError(t, err)
	return c
}

// fills marks the claim, as another command of the run does.
func (l *lab) fills(t *testing.T) {
	t.Helper()
	c := l.claim(t)
	require.NoError(t, blockvolume.New(l.core).Mark(within(t), blockvolume.Claim{
		Namespace: "tidb", Name: c.Name, UID: string(c.UID), Run: run,
	}, "archive-1"))
}

// bind makes the claim's volume.
func (l *lab) bind(t *testing.T) {
	t.Helper()
	l.bindTo(t, l.claim(t).Name)
}

func (l *lab) bindTo(t *testing.T, name string) {
	t.Helper()
	ctx := within(t)
	c, err := l.core.PersistentVolumeClaims("tidb").Get(ctx, name, metav1.GetOptions{})
	require.NoError(t, err)
	if c.Status.Phase == corev1.ClaimBound {
		return
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(c.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, VolumeMode: c.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{Namespace: "tidb", Name: c.Name, UID: c.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "files.csi", VolumeHandle: "disk of " + name},
			},
		},
	}
	_, err = l.core.PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	require.NoError(t, err)
	c.Spec.VolumeName = pv.Name
	c, err = l.core.PersistentVolumeClaims("tidb").Update(ctx, c, metav1.UpdateOptions{})
	require.NoError(t, err)
	c.Status.Phase = corev1.ClaimBound
	_, err = l.core.PersistentVolumeClaims("tidb").UpdateStatus(ctx, c, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// job is the archive's only one.
func (l *lab) job(t *testing.T) *batchv1.Job {
	t.Helper()
	list, err := l.core.Jobs("tidb").List(within(t), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	return &list.Items[0]
}

// works has the Job's pod fill the volume once.
func (l *lab) works(t *testing.T) func(uint64, workers.State) {
	t.Helper()
	var once sync.Once
	return func(uint64, workers.State) {
		once.Do(func() {
			l.bind(t)
			job := l.job(t)
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			_, err := l.core.Jobs("tidb").UpdateStatus(within(t), job, metav1.UpdateOptions{})
			require.NoError(t, err)
		})
	}
}

func (l *lab) jobs() int { return len(l.server.List("jobs", "tidb")) }

func TestFill_MarksClaimAndVolume(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.filler.Stand = l.works(t)
	items, err := l.filler.Fill(within(t), archive())
	require.NoError(t, err)
	require.Equal(t, "disk of "+l.claim(t).Name, items[0].Bound.Handle)
	require.Zero(t, l.jobs())
	require.Equal(t, "archive-1", l.claim(t).Annotations["tisnap.io/filled"])
	pv := l.server.Get("persistentvolumes", "", items[0].Bound.Name)
	require.Equal(t, string(run), pv.GetAnnotations()["tisnap.io/run"])
}

// A run is of one archive: what the Job of another one has written is in the volume.
func TestFill_AnotherArchiveOfTheRun_Conflict(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(within(t))
	l.filler.Stand = func(uint64, workers.State) { cancel() } // it is killed before its volume is filled
	_, err := l.filler.Fill(ctx, archive())
	require.Error(t, err)
	l.filler.Options.Archive, l.filler.Stand = "archive-2", l.works(t)
	items, err := l.filler.Fill(within(t), archive())
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.Error(t, items[0].Err)
	require.NotContains(t, l.claim(t).Annotations, "tisnap.io/filled")
}

// No Job is left on a claim that another command has filled, and so handed out, at any moment.
func TestFill_AnotherCommandHasFilledIt_NoJob(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"GET persistentvolumeclaims", "POST jobs"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.filler.Stand = l.works(t)
			l.before[moment] = func() { l.fills(t) }
			_, err := l.filler.Fill(within(t), archive())
			require.True(t, failure.Is(err, failure.Conflict), "%v", err)
			require.ErrorContains(t, err, "another command of the run has filled it")
			require.Zero(t, l.jobs())
		})
	}
}

// The Job that a command left, which died between its volumes' marks and its end, goes before they are handed out.
func TestFill_JobWasLeft_Removed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.filler.Stand = l.works(t)
	l.before["DELETE jobs"] = func() { l.server.Deny("delete", "jobs") }
	_, err := l.filler.Fill(within(t), archive())
	require.True(t, failure.Is(err, failure.Denied), "%v", err)
	require.Equal(t, 1, l.jobs())
	l.server.Allow("delete", "jobs")
	_, err = l.filler.Fill(within(t), archive())
	require.NoError(t, err)
	require.Zero(t, l.jobs())
}

// Another command that replaces the Job, while this one marks what that has filled, keeps this one from handing it out.
func TestFill_AnotherCommandReplacesTheJob_Conflict(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.filler.Stand = l.works(t)
	l.before["PUT persistentvolumeclaims"] = func() {
		job, other := l.job(t), workers.New(l.core)
		other.Interval = time.Millisecond
		_, err := other.Make(within(t), workers.Spec{
			Run: run, Namespace: "tidb", Name: job.Name, Image: "tisnap:v2", Args: []string{"archive"}, Pods: 1,
		})
		require.NoError(t, err)
		require.NotEqual(t, job.UID, l.job(t).UID)
	}
	items, err := l.filler.Fill(within(t), archive())
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.Error(t, items[0].Err)
	require.Equal(t, 1, l.jobs(), "the other command's")
}

// A Job ends by itself, and one that cannot begin is not left to begin when the volumes are someone else's.
func TestFill_NoPodStarts_JobIsRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.filler.Jobs.StartWithin = 50 * time.Millisecond
	l.filler.Stand = func(uint64, workers.State) { require.Positive(t, *l.job(t).Spec.ActiveDeadlineSeconds) }
	_, err := l.filler.Fill(within(t), archive())
	require.True(t, failure.Is(err, failure.Unready), "%v", err)
	require.Zero(t, l.jobs())
}

// A volume that was there before is not marked as filled.
func TestFill_VolumeIsNotNew_Conflict(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	works := l.works(t)
	l.filler.Stand = func(store uint64, s workers.State) {
		works(store, s)
		pv := l.server.Get("persistentvolumes", "", "pvc-"+string(l.claim(t).UID))
		l.server.SetCreated(pv, time.Now().Add(-time.Hour))
	}
	_, err := l.filler.Fill(within(t), archive())
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.NotContains(t, l.claim(t).Annotations, "tisnap.io/filled")
	_, err = l.filler.Remove(within(t))
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.Equal(t, 1, l.jobs(), "nothing is changed")
}

// stores runs the Job of each store once, and returns the volumes that it was to fill, with their claims.
func (l *lab) stores(t *testing.T, fails uint64) *sync.Map {
	t.Helper()
	var ran sync.Map
	l.filler.Stand = func(store uint64, _ workers.State) {
		if _, again := ran.Load(store); again {
			return
		}
		job, err := l.core.Jobs("tidb").Get(within(t), claims.JobName(run, store), metav1.GetOptions{})
		require.NoError(t, err)
		container, fills := job.Spec.Template.Spec.Containers[0], []string{}
		for _, device := range container.VolumeDevices {
			name := strings.TrimPrefix(device.Name, "device-")
			to := slices.IndexFunc(container.Args, func(arg string) bool { return strings.HasSuffix(arg, "="+device.DevicePath) })
			require.Equal(t, "--to", container.Args[to-1])
			fills = append(fills, strings.TrimSuffix(container.Args[to], device.DevicePath)+name)
			l.bindTo(t, name)
		}
		ran.Store(store, fills)
		condition := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
		if store == fails {
			condition.Type = batchv1.JobFailed
		}
		job.Status.Conditions = append(job.Status.Conditions, condition)
		_, err = l.core.Jobs("tidb").UpdateStatus(within(t), job, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	return &ran
}

// A Job fills the volumes of its store that are not filled, each by its own claim; a store that fails is alone in that.
func TestFill_TwoStores_EachJobHasWhatIsNotFilled(t *testing.T) {
	t.Parallel()
	roles := []string{"data", "log"}
	for name, c := range map[string]struct {
		filled string // of store 4
		fails  uint64
	}{
		"none is filled": {"", 0}, "the first is": {"data", 0}, "the second is": {"log", 0},
		"another store fails": {"data", 5}, "its store fails": {"log", 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.filler.Options.Workers = 2
			volumes := []format.Volume{{Role: roles[0], Size: 10}, {Role: roles[1], Size: 10}}
			a := &format.Archive{Stores: []format.Store{{ID: 4, Volumes: volumes}, {ID: 5, Volumes: volumes}}}
			if c.filled != "" {
				own := blockvolume.New(l.core)
				made, err := own.Make(within(t), blockvolume.Spec{
					Run: run, Namespace: "tidb", Name: blockvolume.NameOf(run, 4, c.filled), Class: "files", SizeGiB: 1,
					Content: "archive-1",
				})
				require.NoError(t, err)
				l.bindTo(t, made.Name)
				require.NoError(t, own.Mark(within(t), made, "archive-1"))
			}
			ran := l.stores(t, c.fails)
			items, err := l.filler.Fill(within(t), a)
			require.Equal(t, c.fails != 0, failure.Is(err, failure.Unready), "%v", err)
			require.Len(t, items, 4)
			for i, one := range items {
				require.Equal(t, uint64(4+i/2), one.Store)
				claim := blockvolume.NameOf(run, one.Store, roles[i%2])
				fills, _ := ran.Load(one.Store)
				to := fmt.Sprintf("%d/%s=%s", one.Store, roles[i%2], claim)
				if one.Store == 4 && one.Volume.Role == c.filled {
					require.NotContains(t, fills, to)
				} else {
					require.Contains(t, fills, to)
				}
				if one.Store == c.fails {
					require.Error(t, one.Err)
					continue
				}
				require.NoError(t, one.Err)
				require.Equal(t, "disk of "+claim, one.Bound.Handle)
			}
		})
	}
}

// No claim is made for pods that cannot be.
func TestFill_PodCannotBeMade_NoClaims(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.filler.Options.Pod.Memory = "much"
	items, err := l.filler.Fill(within(t), archive())
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
	require.Error(t, items[0].Err)
	require.Empty(t, l.server.List("persistentvolumeclaims", "tidb"))
}

// The stores that had not begun are listed, too.
func TestFill_Cancelled_AllVolumesAreListed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := archive()
	a.Stores = append(a.Stores, format.Store{ID: 5, Volumes: a.Stores[0].Volumes})
	ctx, cancel := context.WithCancel(within(t))
	l.filler.Stand = func(uint64, workers.State) { cancel() }
	items, err := l.filler.Fill(ctx, a)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, items, 2)
	for _, one := range items {
		require.Error(t, one.Err)
	}
	require.Equal(t, uint64(5), items[1].Store)
}

// The second of two commands learns that the volumes are filled, not that its Job is gone.
func TestFill_AnotherCommandIsFaster_Conflict(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.filler.Stand = func(uint64, workers.State) {
		l.bind(t)
		l.fills(t)
		require.NoError(t, l.core.Jobs("tidb").Delete(within(t), l.job(t).Name, metav1.DeleteOptions{}))
	}
	_, err := l.filler.Fill(within(t), archive())
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.ErrorContains(t, err, "another command of the run has filled it")
}

// A store's volumes are made in its zone, or else where the pod may run that they are for.
func TestFill_PodsOfStores_RunWhereTheirVolumesAreMade(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	own := map[string]string{"pool": "workers"}
	l.filler.Options.Pod.NodeSelector = own
	l.filler.Options.Zones = map[uint64]cluster.Zone{4: "a", 5: ""}
	ssd := podnodes.Rules{NodeSelector: map[string]string{"disk": "ssd"}}
	l.filler.Options.Beside = map[uint64]podnodes.Rules{4: ssd, 5: ssd}
	in := l.filler.Pod(4)
	require.Equal(t, map[string]string{"pool": "workers", workers.ZoneLabel: "a"}, in.NodeSelector)
	require.Nil(t, in.Beside, "other nodes of the zone do")
	without := l.filler.Pod(5)
	require.Equal(t, own, without.NodeSelector)
	require.Equal(t, &ssd, without.Beside)
	require.Nil(t, l.filler.Pod(6).Beside)
}
