package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// cannotStart is the exit code of a pod whose program cannot be started, as that of a shell.
const cannotStart = 126

// RunJobs runs the pods of Jobs until ctx ends. run is the program of a pod, and returns its exit code: its arguments name
// files in place of the pod's block devices and of the files of its secrets. Its context ends when the pod is deleted. What
// it has written to a device until it returns is on the pod's volume.
func (t *Testbed) RunJobs(ctx context.Context, run func(ctx context.Context, pod *corev1.Pod, args []string) int) {
	t.Kube.RunJobs(ctx, func(ctx context.Context, pod *corev1.Pod) int32 {
		code, err := t.runPod(ctx, pod, run)
		if err != nil {
			t.cfg.Logf("pod %s: %v", pod.Name, err)
			code = cannotStart
		}
		return int32(code)
	})
}

func (t *Testbed) runPod(
	ctx context.Context, pod *corev1.Pod, run func(ctx context.Context, pod *corev1.Pod, args []string) int,
) (code int, err error) {
	folder, err := os.MkdirTemp(t.cfg.Dir, "pod-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	container := pod.Spec.Containers[0]
	args := slices.Clone(container.Args)
	for i, at := range container.VolumeDevices {
		file := filepath.Join(folder, fmt.Sprintf("device-%d", i))
		device, err := t.deviceOf(pod, at.Name)
		if err == nil {
			err = readDevice(device, file)
		}
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, writeDevice(device, file)) }()
		inPlace(args, at.DevicePath, file, false)
	}
	for _, at := range container.VolumeMounts {
		files := filepath.Join(folder, at.Name)
		if err := t.writeSecret(pod, at.Name, files); err != nil {
			return 0, err
		}
		inPlace(args, at.MountPath, files, true)
	}
	return run(ctx, pod, args), nil
}

// inPlace replaces a path in arguments: PATH, or what is after "=" in others, and if it is a folder what is below it.
func inPlace(args []string, path, by string, folder bool) {
	for i, arg := range args {
		before, at, is := "", arg, strings.HasPrefix(arg, "/")
		if !is {
			n := strings.LastIndex(arg, "=/")
			if n < 0 {
				continue
			}
			before, at = arg[:n+1], arg[n+1:]
		}
		if at == path {
			args[i] = before + by
		} else if rest, below := strings.CutPrefix(at, path+"/"); below && folder {
			args[i] = before + filepath.Join(by, rest)
		}
	}
}

// deviceOf is the block device of a pod's volume.
func (t *Testbed) deviceOf(pod *corev1.Pod, volume string) (*disk.Device, error) {
	for _, v := range pod.Spec.Volumes {
		if v.Name != volume || v.PersistentVolumeClaim == nil {
			continue
		}
		claim := t.Objects.Get("persistentvolumeclaims", pod.Namespace, v.PersistentVolumeClaim.ClaimName)
		if claim == nil {
			return nil, fmt.Errorf("claim %s does not exist", v.PersistentVolumeClaim.ClaimName)
		}
		name, _, _ := unstructured.NestedString(claim.Object, "spec", "volumeName")
		pv := t.Objects.Get("persistentvolumes", "", name)
		if pv == nil {
			return nil, fmt.Errorf("claim %s has no volume", claim.GetName())
		}
		if mode, _, _ := unstructured.NestedString(pv.Object, "spec", "volumeMode"); mode != string(corev1.PersistentVolumeBlock) {
			return nil, fmt.Errorf("volume %s has volumeMode %q, not Block", name, mode)
		}
		driver, _, _ := unstructured.NestedString(pv.Object, "spec", "csi", "driver")
		handle, _, _ := unstructured.NestedString(pv.Object, "spec", "csi", "volumeHandle")
		return t.device(driver, cluster.VolumeID(handle))
	}
	return nil, fmt.Errorf("pod %s has no claim %s", pod.Name, volume)
}

// writeSecret writes the files of a pod's secret into a folder.
func (t *Testbed) writeSecret(pod *corev1.Pod, volume, folder string) error {
	for _, v := range pod.Spec.Volumes {
		if v.Name != volume || v.Secret == nil {
			continue
		}
		o := t.Objects.Get("secrets", pod.Namespace, v.Secret.SecretName)
		if o == nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q : secret %q not found", volume, v.Secret.SecretName)
		}
		var secret corev1.Secret
		if err := k8sruntime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &secret); err != nil {
			return err
		}
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		for name, data := range secret.Data {
			if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// chunk is how much of a device is copied at a time; it has whole pages.
const chunk = 1 << 20

// readDevice makes a sparse file of what is on a device.
func readDevice(device *disk.Device, path string) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(device.Size()); err != nil {
		return err
	}
	image := disk.Cut(device)[0]
	for _, n := range image.Allocated(chunk) {
		b := make([]byte, min(chunk, device.Size()-n*chunk))
		if _, err := image.ReadAt(b, n*chunk); err != nil {
			return err
		}
		if _, err := file.WriteAt(b, n*chunk); err != nil {
			return err
		}
	}
	return nil
}

// writeDevice writes what a sparse file has to a device, which must be attached still.
func writeDevice(device *disk.Device, path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	data, hole := 3, 4 // of lseek
	if runtime.GOOS == "darwin" {
		data, hole = hole, data
	}
	for end := int64(0); ; {
		begin, err := file.Seek(end, data)
		if errors.Is(err, syscall.ENXIO) {
			return nil // there is no more
		} else if err != nil {
			return err
		}
		if end, err = file.Seek(begin, hole); err != nil {
			return err
		}
		for at := begin; at < end; at += chunk {
			b := make([]byte, min(chunk, end-at))
			if _, err := file.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if _, err := device.WriteAt(b, at); err != nil {
				return err
			}
		}
	}
}
