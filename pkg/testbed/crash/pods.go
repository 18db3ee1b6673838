package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// secret is the Secret with the key of the scene's repository.
func (s *scene) secret() string { return fmt.Sprintf("archive-key-%d", s.n) }

// putSecret makes it.
func (s *scene) putSecret() error {
	key, err := os.ReadFile(s.identityFile())
	if err != nil {
		return err
	}
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: s.secret()}, Data: map[string][]byte{"identity": key},
	})
	if err != nil {
		return err
	}
	return s.bed.Objects.Put(&unstructured.Unstructured{Object: o})
}

// runPods has the program be that of the pods of Jobs, in processes of their own, until stop is called.
func (s *scene) runPods(ctx context.Context) (stop func()) {
	if s.run != RestoreVolumes {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		s.bed.RunJobs(ctx, func(ctx context.Context, _ *corev1.Pod, args []string) int {
			cmd := exec.CommandContext(ctx, s.program.Path, args...) //nolint:gosec // the caller's program
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			cmd.WaitDelay = 10 * time.Second
			cmd.Env = append(os.Environ(), s.bed.Env()...)
			err := cmd.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 1
			}
			return cmd.ProcessState.ExitCode()
		})
	})
	return func() {
		cancel()
		done.Wait()
	}
}
