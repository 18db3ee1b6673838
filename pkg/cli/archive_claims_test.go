package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	kubetyped "github.com/tisnap/tisnap/pkg/kube/typed"
)

// disks is Kubernetes with a CSI driver of files, and a kubelet that runs the pods of Jobs in this process.
type disks struct {
	lab    *archiveLab
	server *kubetest.Server
	core   *kubetyped.Client
	config string
	folder string // has a file for each claim
	fails  int    // so many pods fail
	dirty  bool   // new volumes are not zeros
	after  func() // the next pod, before its Job is known to be done
	ran    [][]string
	env    []corev1.EnvVar // of the last pod
}

func newDisks(t *testing.T, l *archiveLab) *disks {
	t.Helper()
	d := &disks{
		lab: l, server: kubetest.New(kubetest.Config{Namespace: "tidb"}), config: t.TempDir() + "/kubeconfig",
		folder: t.TempDir(),
	}
	require.NoError(t, d.server.Start(t.Context()))
	t.Cleanup(d.server.Close)
	require.NoError(t, d.server.WriteKubeconfig(d.config))
	require.NoError(t, d.server.AddStorageClassOf("files", "files.csi"))
	kubetyped.Quiet()
	config, err := clientcmd.BuildConfigFromFlags("", d.config)
	require.NoError(t, err)
	config.QPS = -1
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	d.core, err = kubetyped.New(config, &http.Client{Transport: transport})
	require.NoError(t, err)
	return d
}

// restore runs the command beside the controllers.
func (d *disks) restore(t *testing.T, args ...string) (ExitCode, *archiveClaimsDoc, string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			changed := d.server.Changed()
			d.step(ctx, t)
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}()
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), append([]string{
		"archive", "restore", "one", "--repo", d.lab.url(), "--repo-identity", d.lab.identity, "--to-claims", "--kubeconfig",
		d.config, "-n", "tidb", "--storage-class", "files", "--image", "tisnap:v1", "-o", "json",
	}, args...), Streams{Out: &stdout, Err: &stderr, poll: 5 * time.Millisecond}, Version{})
	stop()
	<-done
	var doc archiveClaimsDoc
	if stdout.Len() > 0 {
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &doc))
	}
	return code, &doc, stderr.String()
}

// step runs the pods of new Jobs, deletes what is to be deleted, and the volumes of claims that are gone.
func (d *disks) step(ctx context.Context, t *testing.T) {
	jobs, err := d.core.Jobs("tidb").List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the command has ended
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		switch {
		case job.DeletionTimestamp != nil:
			job.Finalizers = nil
			_, _ = d.core.Jobs("tidb").Update(ctx, job, metav1.UpdateOptions{})
		case len(job.Status.Conditions) == 0 && !*job.Spec.Suspend:
			d.runPod(ctx, t, job)
		}
	}
	volumes, err := d.core.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		claim := d.server.Get("persistentvolumeclaims", "tidb", pv.Spec.ClaimRef.Name)
		if claim == nil && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			_ = os.Remove(pv.Spec.CSI.VolumeHandle)
			_ = d.core.PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{})
		}
	}
}

// runPod runs the Job's pod on the files of its claims.
func (d *disks) runPod(ctx context.Context, t *testing.T, job *batchv1.Job) {
	pod := job.Spec.Template.Spec
	files := map[string]string{}
	for _, v := range pod.Volumes {
		if v.PersistentVolumeClaim != nil {
			files[v.Name] = d.bind(ctx, t, v.PersistentVolumeClaim.ClaimName)
		}
	}
	args := append([]string(nil), pod.Containers[0].Args...)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], keyFolder+"/identity", d.lab.identity)
		for _, device := range pod.Containers[0].VolumeDevices {
			args[i] = strings.ReplaceAll(args[i], "="+device.DevicePath, "="+files[device.Name])
		}
	}
	condition := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	d.ran, d.env = append(d.ran, args), pod.Containers[0].Env
	if d.fails > 0 {
		d.fails--
		condition.Type, condition.Message = batchv1.JobFailed, "its pod failed"
	} else if code, _, stderr := run(t, args...); code != ExitDone {
		condition.Type, condition.Message = batchv1.JobFailed, fmt.Sprintf("exit code %d: %s", code, stderr)
	}
	if d.after != nil {
		d.after()
	}
	job.Status.Conditions = append(job.Status.Conditions, condition)
	_, _ = d.core.Jobs("tidb").UpdateStatus(ctx, job, metav1.UpdateOptions{})
}

// bind makes the claim's volume, unless it has one.
func (d *disks) bind(ctx context.Context, t *testing.T, name string) (file string) {
	file = filepath.Join(d.folder, name)
	api := d.core.PersistentVolumeClaims("tidb")
	claim, err := api.Get(ctx, name, metav1.GetOptions{})
	if err != nil || claim.Status.Phase == corev1.ClaimBound {
		return file
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if f, err := os.Create(file); err == nil {
		if d.dirty {
			_, _ = f.WriteAt([]byte("an old file system"), 10*volume.BlockSize) // where the archive has zeros
		}
		_ = f.Truncate(size.Value())
		_ = f.Close()
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode,
			StorageClassName: "files", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{Namespace: "tidb", Name: name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "files.csi", VolumeHandle: file},
			},
		},
	}
	_, err = d.core.PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
	if err == nil {
		claim.Spec.VolumeName = pv.Name
		claim, err = api.Update(ctx, claim, metav1.UpdateOptions{})
	}
	if err == nil {
		claim.Status.Phase = corev1.ClaimBound
		_, err = api.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Errorf("bind %s: %v", name, err)
	}
	return file
}

// A failed command is resumed by the same one. What is filled is listed, and never written again: it may be in use.
func TestArchiveRestore_ToClaims_VolumesAreTheArchives(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	data := l.put(t, "one", 10)
	d := newDisks(t, l)
	d.fails = 1
	code, doc, stderr := d.restore(t)
	require.Equal(t, ExitCode(5), code, stderr)
	require.Contains(t, doc.Items[0].Error, "its pod failed")

	code, doc, stderr = d.restore(t, "--worker-env", "NO_PROXY=.svc,10.0.0.0/8", "--worker-env", "A=b")
	require.Equal(t, ExitDone, code, stderr)
	require.Len(t, d.ran, 2)
	require.Subset(t, d.env, []corev1.EnvVar{{Name: "NO_PROXY", Value: ".svc,10.0.0.0/8"}, {Name: "A", Value: "b"}})
	require.Contains(t, strings.Join(d.ran[1], " "), "--repo-id "+l.id)
	require.Len(t, doc.Items, 1)
	file := doc.Items[0].Volume.Handle
	require.Equal(t, filepath.Join(d.folder, doc.Items[0].Claim), file)
	is, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(is, data))
	require.Empty(t, d.server.List("jobs", "tidb"), "no pod holds the volume")

	is[0] ^= 1
	require.NoError(t, os.WriteFile(file, is, 0o600))
	code, _, stderr = d.restore(t)
	require.Equal(t, ExitDone, code, stderr)
	require.Len(t, d.ran, 2)

	code, _, stderr = d.restore(t, "--remove")
	require.Equal(t, ExitCode(2), code, stderr)
	require.FileExists(t, file)
	code, _, stderr = d.restore(t, "--remove", "--yes", "--run-id", "another")
	require.Equal(t, ExitCode(4), code, stderr)
	require.FileExists(t, file)
	code, _, stderr = d.restore(t, "--remove", "--yes")
	require.Equal(t, ExitDone, code, stderr)
	require.NoFileExists(t, file)
	code, _, stderr = d.restore(t, "--remove", "--yes")
	require.Equal(t, ExitCode(4), code, stderr)
	require.Empty(t, d.server.List("persistentvolumeclaims", "tidb"))
}

// A claim that took the place of one that a Job has filled is empty, and is filled by another Job.
func TestArchiveRestore_ToClaims_ClaimWasReplaced_IsFilledAgain(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	data := l.put(t, "one", 10)
	d := newDisks(t, l)
	lost := func() *corev1.PersistentVolumeClaim {
		list, err := d.core.PersistentVolumeClaims("tidb").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return nil
		}
		return &list.Items[0]
	}
	d.after = func() {
		d.after = nil
		claim := lost()
		if claim == nil {
			return
		}
		_ = d.core.PersistentVolumes().Delete(t.Context(), claim.Spec.VolumeName, metav1.DeleteOptions{})
		_ = d.core.PersistentVolumeClaims("tidb").Delete(t.Context(), claim.Name, metav1.DeleteOptions{})
	}
	code, _, stderr := d.restore(t)
	require.Equal(t, ExitCode(4), code, stderr)
	require.Contains(t, stderr, "someone deleted it")
	code, doc, stderr := d.restore(t)
	require.Equal(t, ExitDone, code, stderr)
	is, err := os.ReadFile(doc.Items[0].Volume.Handle)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(is, data))
	require.Len(t, d.ran, 2)
}

// A damaged archive fails its store's Job for good, and its claim is not marked as filled.
func TestArchiveRestore_ToClaims_DamagedBlock_IsNotFilled(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "one", 10)
	damage(t, l.packs(t)[0])
	d := newDisks(t, l)
	for range 2 {
		code, doc, stderr := d.restore(t)
		require.Equal(t, ExitCode(5), code, stderr)
		require.Contains(t, doc.Items[0].Error, "exit code 10")
		claim := d.server.Get("persistentvolumeclaims", "tidb", doc.Items[0].Claim)
		require.NotContains(t, claim.GetAnnotations(), "tisnap.io/filled")
	}
	for args, want := range map[string]ExitCode{
		"--to-claims": 2, "--to-claims --image i --to-snapshots": 2, "--to-snapshots --storage-class x": 2, "--to-dir x --run-id r": 2,
		"--to-claims --image i --workers 0": 2, "--to-claims --image i --to-dir x": 2,
	} {
		code, _, stderr := l.run(t, append([]string{"restore", "one"}, strings.Fields(args)...)...)
		require.Equal(t, want, code, "%s: %s", args, stderr)
	}
}

// Variables that are for all commands do not keep the others from restoring.
func TestArchiveRestore_ClaimsInTheEnvironment_ImagesAreWritten(t *testing.T) {
	l := newArchiveLab(t)
	l.put(t, "one", 10)
	t.Setenv("TISNAP_IMAGE", "tisnap:v1")
	t.Setenv("TISNAP_STORAGE_CLASS", "files")
	t.Setenv("TISNAP_KMS_KEY", "arn")
	code, _, stderr := l.run(t, "restore", "one", "--to-dir", t.TempDir())
	require.Equal(t, ExitDone, code, stderr)
}

// A device that is not empty ends the Job at once.
func TestArchiveRestore_ToClaims_DeviceIsNotEmpty_IsNotFilled(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "one", 10)
	d := newDisks(t, l)
	d.dirty = true
	code, doc, stderr := d.restore(t)
	require.Equal(t, ExitCode(5), code, stderr)
	require.Contains(t, doc.Items[0].Error, "exit code 6")
	require.Contains(t, doc.Items[0].Error, "the device was not empty")
	job := d.server.List("jobs", "tidb")[0]
	require.Contains(t, fmt.Sprint(job.Object["spec"].(map[string]any)["podFailurePolicy"]), "values:[2 4 6 7 10]")
}
