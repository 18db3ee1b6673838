package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
)

// far is a Kubernetes cluster in another region whose user may call nothing of EC2, and a repository with an archive that
// its pods can read. It has volumes of EBS and of another cloud.
type far struct {
	place // of the other region

	home    *place // where the backup is
	archive string
	rows    *workload.Copy // at the backup
	flags   []string       // of the repository
}

// newFar archives a backup of a cluster of TiDB Operator 1 or 2, and runs the pods of Jobs in the other region.
func newFar(t *testing.T, operator int) *far {
	t.Helper()
	home := newPlace(t, testbed.Config{Nodes: 6, Scale: 50, Operator: operator, OtherDisks: true})
	c, err := home.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 100, Clients: 2, Regions: 6, Seed: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, load.Close()) }()
	require.NoError(t, load.Load(t.Context()))
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(identity.String()), 0o600))
	f := &far{home: home, flags: []string{"--repo", "s3://" + testbed.Bucket + "/archive", "--repo-identity", key}}
	f.rows = resolvedRows(t, c, load)
	e := ending{}
	for _, args := range [][]string{
		append([]string{"archive", "init", "--recipient", identity.Recipient().String()}, f.flags[:2]...),
		{"backup", prod.String(), "--name", "backup", "--consistent-now", "--storage", whole},
		append([]string{"archive", "create", "backup", "--storage", whole, "-o", "json"}, f.flags...),
	} {
		e = home.run(t, args...)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
	}
	var made struct{ Archive string }
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &made))
	f.archive = made.Archive

	home.bed.Away.AllowOnly()
	f.bed, err = home.bed.AddKubernetes(context.WithoutCancel(t.Context()), home.bed.Away, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(f.bed.Close)
	secret, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "tidb", Name: "tisnap-archive-key"},
		Data:       map[string][]byte{"identity": []byte(identity.String())},
	})
	require.NoError(t, err)
	require.NoError(t, f.bed.Objects.Put(&unstructured.Unstructured{Object: secret}))
	f.runPods(t)
	return f
}

// runPods runs the pods of Jobs until the test ends. Each first one of a store is evicted.
func (f *far) runPods(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done, mu = sync.WaitGroup{}, sync.Mutex{}
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	evicted := map[string]bool{}
	done.Go(func() {
		f.bed.RunJobs(ctx, func(ctx context.Context, pod *corev1.Pod, args []string) int {
			var stdout, stderr bytes.Buffer
			mu.Lock()
			job := pod.Labels["batch.kubernetes.io/job-name"]
			first := !evicted[job]
			evicted[job] = true
			mu.Unlock()
			if first {
				f.bed.Kube.Evict(pod.Namespace, pod.Name)
				<-ctx.Done()
			}
			code := tisnap(ctx, f.bed, &stdout, &stderr, args...)
			if !first {
				assert.Equal(t, cli.ExitDone, code, stderr.String())
			}
			return int(code)
		})
	})
}

// image is what is on a volume of a driver.
func (f *far) image(t *testing.T, driver, handle string) *disk.Image {
	t.Helper()
	device, err := f.bed.EC2.Device(cluster.VolumeID(handle))
	if driver == testbed.OtherDriver {
		device, err = f.bed.Disks.Device(cluster.VolumeID(handle))
	}
	require.NoError(t, err)
	return disk.Cut(device)[0]
}

// snapshotOf is the snapshot of a store's volume that has the same content, byte by byte.
func (f *far) snapshotOf(t *testing.T, store string, is *disk.Image) cluster.SnapshotID {
	t.Helper()
	for _, s := range f.home.bed.EC2.Snapshots() {
		image, err := f.home.bed.EC2.Image(s.ID)
		require.NoError(t, err)
		if s.Tags[ebs.TagStore] == store && sameContent(t, image, is) {
			return s.ID
		}
	}
	return ""
}

func sameContent(t *testing.T, a, b *disk.Image) bool {
	t.Helper()
	const size = 1 << 20
	chunks := append(a.Allocated(size), b.Allocated(size)...)
	require.NotEmpty(t, chunks)
	for _, n := range chunks {
		inA, inB := make([]byte, size), make([]byte, size)
		_, err := a.ReadAt(inA, n*size)
		require.NoError(t, err)
		_, err = b.ReadAt(inB, n*size)
		require.NoError(t, err)
		if !bytes.Equal(inA, inB) {
			return false
		}
	}
	return true
}

// The pods of Jobs write the volumes of the backup to those of a CSI driver, byte by byte, and of what is removed nothing is
// left.
func TestArchiveRestore_ToClaims_AreTheBackupsVolumes(t *testing.T) { //nolint:tparallel // they compare all that is there
	t.Parallel()
	f := newFar(t, 1)
	for _, class := range []string{"ebs-sc", testbed.OtherClass} {
		t.Run(class, func(t *testing.T) {
			before := leak.Everything(f.bed)
			args := append([]string{
				"archive", "restore", f.archive, "--to-claims", "--storage-class", class, "--run-id", class, "--image", "tisnap:v1",
				"-n", "tidb", "-o", "json",
			}, f.flags...)
			e := f.run(t, args...)
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			var doc struct {
				Items []struct {
					Store  string
					Role   string
					Volume struct{ Driver, Handle string }
				}
			}
			require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
			require.Len(t, doc.Items, 6)
			found := map[cluster.SnapshotID]bool{}
			for _, one := range doc.Items {
				of := f.snapshotOf(t, one.Store, f.image(t, one.Volume.Driver, one.Volume.Handle))
				require.NotEmpty(t, of, "store %s %s is none of the backup's volumes", one.Store, one.Role)
				found[of] = true
			}
			require.Len(t, found, 6)
			e = f.run(t, append(slices.Clone(args), "--remove", "--yes")...)
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			require.NoError(t, leak.AwaitNoMore(t.Context(), f.bed, before, 10*time.Second))
		})
	}
}

// The default way in another region than the archive's calls nothing of EC2, and needs nothing of the backup but its
// archive: its cluster, its snapshots and its storage are gone.
func TestRestore_FromArchive_InAnotherRegion_BecomesVolumesOfTheClass(t *testing.T) {
	t.Parallel()
	f := newFar(t, 2)
	_, err := f.home.bed.DestroyCluster(t.Context(), prod)
	require.NoError(t, err)
	e := f.home.run(t, "delete", "backup", "--yes", "--last", "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Empty(t, f.home.bed.EC2.Snapshots())

	args := append([]string{
		"restore", f.archive, "--from-archive", "--to", "tidb/copy", "--image", "tisnap:v1", "--storage",
		"s3://" + testbed.Bucket + "/far", "--timeout", "3m", "-o", "json",
	}, f.flags...)
	e = f.run(t, args...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Contains(t, e.stderr, "pods fill the volumes: the archive is of "+testbed.Region)
	f.requireRows(t, "copy", f.rows)
	require.Empty(t, f.bed.EC2.MutatingCalls())
	require.Empty(t, f.bed.EC2.Snapshots())
	require.Empty(t, f.bed.Objects.List("jobs", "tidb"))
	volumes := f.bed.Volumes(cluster.Name{Namespace: "tidb", Name: "copy"})
	require.Len(t, volumes, 6)
	for _, id := range volumes {
		v, ok := f.bed.EC2.Volume(id)
		require.True(t, ok)
		require.NotEmpty(t, v.Tags["CSIVolumeName"], "the driver has made it")
		require.NotEmpty(t, v.Instance, "a store has it")
	}
	require.NoError(t, leak.Balance(t.Context(), f.bed, f.storage(t, "s3://"+testbed.Bucket+"/far")))
}
