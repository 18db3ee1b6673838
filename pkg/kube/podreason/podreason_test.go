package podreason_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/podreason"
)

func TestOf_HostileText_IsOneLineWithoutControls(t *testing.T) {
	t.Parallel()
	crashed := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "tikv", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: "panic\r\n\x1b]0;title\a" + strings.Repeat("x", 2*failure.MaxRemote)},
	}}}}}
	reason := podreason.Of(crashed, "")
	require.Less(t, len(reason), failure.MaxRemote+100)
	require.Contains(t, reason, "container tikv ended with code 1 panic  ]0;title")
}
