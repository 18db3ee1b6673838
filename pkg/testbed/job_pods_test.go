package testbed_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/workers"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
)

// device is the block device of a claim's volume, and its tags if it is one of EC2.
func device(t *testing.T, bed *testbed.Testbed, v blockvolume.Volume) (*disk.Device, ebs.Tags) {
	t.Helper()
	id := cluster.VolumeID(v.Handle)
	if v.Driver == testbed.OtherDriver {
		found, err := bed.Disks.Device(id)
		require.NoError(t, err)
		return found, nil
	}
	found, err := bed.EC2.Device(id)
	require.NoError(t, err)
	volume, ok := bed.EC2.Volume(id)
	require.True(t, ok)
	return found, volume.Tags
}

// A pod of a Job has its volumes as files, whichever cloud they are of. What one that is deleted has written is there for
// the next one, and nothing is left of what is removed.
func TestRunJobs_PodsHaveDevicesAndSecrets(t *testing.T) {
	t.Parallel()
	bed, err := testbed.Start(t.Context(), testbed.Config{Dir: t.TempDir(), Nodes: 3, OtherDisks: true})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	secret, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "tidb", Name: "key"}, Data: map[string][]byte{"identity": []byte("the key")},
	})
	require.NoError(t, err)
	require.NoError(t, bed.Objects.Put(&unstructured.Unstructured{Object: secret}))
	client, err := kube.Open(kube.Config{Kubeconfig: bed.Kubeconfig()})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	jobs, claims := client.Jobs(), client.BlockVolumes()
	jobs.Interval, claims.Interval = 10*time.Millisecond, 10*time.Millisecond
	before := leak.Everything(bed)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var pods sync.WaitGroup
	t.Cleanup(func() { // the testbed is closed after that
		cancel()
		pods.Wait()
	})

	var ran atomic.Int64
	pods.Go(func() {
		bed.RunJobs(ctx, func(ctx context.Context, pod *corev1.Pod, args []string) int {
			n := ran.Add(1)
			path := strings.TrimPrefix(args[1], "4/data=")
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			if !assert.NoError(t, err) {
				return 2
			}
			defer file.Close()
			key, err := os.ReadFile(strings.TrimPrefix(args[2], "--key="))
			assert.NoError(t, err)
			assert.Equal(t, "the key", string(key))
			if n%2 == 0 { // on what the one before has written
				b := make([]byte, 5)
				_, err := file.ReadAt(b, 9<<30)
				assert.NoError(t, err)
				assert.Equal(t, "first", string(b))
				_, err = file.WriteAt([]byte("second"), 0)
				assert.NoError(t, err)
				select {
				case <-ctx.Done():
					assert.Fail(t, "it is ended although nothing ends it")
				case <-time.After(50 * time.Millisecond):
				}
				return 0
			}
			_, err = file.WriteAt([]byte("first"), 9<<30)
			assert.NoError(t, err)
			bed.Kube.Evict(pod.Namespace, pod.Name)
			<-ctx.Done()
			return 143
		})
	})
	for _, class := range []string{"ebs-sc", testbed.OtherClass} {
		run := cluster.RunID("run-" + class)
		claim, err := claims.Make(ctx, blockvolume.Spec{
			Run: run, Namespace: "tidb", Name: "claim-" + class, Class: class, SizeGiB: 10,
		})
		require.NoError(t, err)
		job, err := jobs.Make(ctx, workers.Spec{
			Run: run, Namespace: "tidb", Name: "fill-" + class, Image: "i", Pods: 1, Root: true,
			Args:    []string{"fill", "4/data=/dev/tisnap-0", "--key=/etc/tisnap/identity"},
			Devices: []workers.Device{{Claim: claim.Name, Path: "/dev/tisnap-0"}},
			Secrets: []workers.Secret{{Name: "key", Folder: "/etc/tisnap"}},
		})
		require.NoError(t, err)
		require.NoError(t, jobs.Wait(ctx, job, nil))
		require.NoError(t, jobs.Remove(ctx, job))
		volume, err := claims.Bound(ctx, claim)
		require.NoError(t, err)
		on, tags := device(t, bed, volume)
		image := disk.Cut(on)[0]
		for off, want := range map[int64]string{0: "second", 9 << 30: "first"} {
			b := make([]byte, len(want))
			_, err := image.ReadAt(b, off)
			require.NoError(t, err)
			require.Equal(t, want, string(b))
		}
		if tags != nil {
			require.Equal(t, ebs.Tags{
				"ebs.csi.aws.com/cluster": "true", "CSIVolumeName": volume.Name, "kubernetes.io/created-for/pv/name": volume.Name,
				"kubernetes.io/created-for/pvc/name": claim.Name, "kubernetes.io/created-for/pvc/namespace": "tidb",
			}, tags)
		}
		require.ErrorContains(t, leak.AwaitNoMore(ctx, bed, before, 100*time.Millisecond), "volume "+volume.Handle)
		require.NoError(t, claims.Remove(ctx, claim))
	}
	require.NoError(t, leak.AwaitNoMore(ctx, bed, before, 10*time.Second))
}
