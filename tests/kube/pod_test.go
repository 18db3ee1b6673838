package kube_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/testbed/plane"
	"github.com/tisnap/tisnap/pkg/testbed/pod"
)

// inPod names the variable that makes this program the process of a pod, which answers what it is asked; asSomeone the one with
// the user that it impersonates.
const inPod, asSomeone = "TISNAP_TEST_IN_POD", "TISNAP_TEST_AS"

// answered is what the process in the pod reports: how it is connected, and how listing the clusters of a namespace ended.
type answered struct {
	Inside    bool
	Namespace string
	Kind      string
	Error     string
}

// TestProcessInPod is no test but the process: it opens the adapter as tisnap does in a pod, without any kubeconfig, and lists
// the clusters of each namespace that it reads.
func TestProcessInPod(t *testing.T) { // it is alone in its process
	if os.Getenv(inPod) == "" {
		t.Skip("other tests run it in their pods")
	}
	client, err := kube.Open(kube.Config{Patience: time.Second, AsUser: os.Getenv(asSomeone)})
	require.NoError(t, err)
	defer client.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		a := answered{Inside: client.Inside(), Namespace: client.Namespace()}
		if _, err := client.Clusters(t.Context(), lines.Text()); err != nil {
			a.Kind, a.Error = failure.KindOf(err).String(), err.Error()
		}
		require.NoError(t, json.NewEncoder(os.Stdout).Encode(a))
	}
}

// asked is such a process.
type asked struct {
	questions io.Writer
	answers   *json.Decoder
}

func ask(t *testing.T, p *pod.Pod, env ...string) asked {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := p.Command(context.WithoutCancel(t.Context()), program, "-test.run=^TestProcessInPod$")
	cmd.Env = append(append(cmd.Env, inPod+"=yes", folder+"="), env...) // it starts no control plane
	cmd.Stderr = t.Output()
	questions, err := cmd.StdinPipe()
	require.NoError(t, err)
	answers, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = questions.Close() // it ends then
		_ = cmd.Wait()
	})
	return asked{questions, json.NewDecoder(answers)}
}

func (a asked) clusters(t *testing.T, namespace string) (out answered) {
	t.Helper()
	_, err := fmt.Fprintln(a.questions, namespace)
	require.NoError(t, err)
	require.NoError(t, a.answers.Decode(&out))
	return out
}

// needsPod leaves out what needs a pod's files on a machine where no process can have its own.
func needsPod(t *testing.T) {
	t.Helper()
	needsPlane(t)
	if err := pod.Possible(t.Context()); err != nil {
		t.Skip(err)
	}
}

// newPod is a pod of the namespace, with a token.
func newPod(t *testing.T, p *plane.Plane, namespace, token string, hosts ...string) *pod.Pod {
	t.Helper()
	authority, err := os.ReadFile(p.Authority())
	require.NoError(t, err)
	made, err := pod.New(pod.Config{
		Dir: t.TempDir(), Server: p.Server(), Authority: authority, Namespace: namespace, Token: token, Hosts: hosts,
	})
	require.NoError(t, err)
	return made
}

// token is one of a service account that is valid as long as a secret of this name is there, which is made.
func token(t *testing.T, core kubernetes.Interface, namespace, account, name string) string {
	t.Helper()
	secret, err := core.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	answer, err := core.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Secret", Name: name, UID: secret.UID,
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return answer.Status.Token
}

// revoke invalidates a token, and returns once the API server refuses it.
func (s system) revoke(t *testing.T, name, token string) {
	t.Helper()
	require.NoError(t, s.core.CoreV1().Secrets(s.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
	config := rest.AnonymousClientConfig(s.config)
	config.BearerToken = token
	core, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	eventually(t, "the token is refused", func() bool {
		err := core.CoreV1().RESTClient().Get().AbsPath("/version").Do(t.Context()).Error()
		return apierrors.ReasonForError(err) == metav1.StatusReasonUnauthorized
	})
}

// A pod without a kubeconfig takes its service account: its token, which may what manifests/rbac.yaml grants, the authority,
// and its namespace where none is named. A token that the kubelet has replaced is taken at once when the old one is refused.
func TestPod_ServiceAccount_IsTaken_AndItsNextToken(t *testing.T) {
	t.Parallel()
	needsPod(t)
	s := openReal(t)
	s.grant(t, documents(t, "../../manifests/rbac.yaml"))
	first := token(t, s.core, s.namespace, "tisnap", "first")
	p := newPod(t, shared, s.namespace, first)
	process := ask(t, p)
	good := answered{Inside: true, Namespace: s.namespace}
	require.Equal(t, good, process.clusters(t, s.namespace))
	require.Equal(t, good, process.clusters(t, ""), "in all namespaces")

	s.revoke(t, "first", first)
	refused := process.clusters(t, s.namespace)
	require.Equal(t, failure.Denied.String(), refused.Kind, refused.Error)
	require.NoError(t, p.Rotate(token(t, s.core, s.namespace, "tisnap", "second")))
	require.Equal(t, good, process.clusters(t, s.namespace))

	refused = ask(t, p, asSomeone+"=someone").clusters(t, s.namespace)
	require.Equal(t, failure.Denied.String(), refused.Kind, refused.Error)
	require.Contains(t, refused.Error, "cannot impersonate", "--as is not left out")
}
