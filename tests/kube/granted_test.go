package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
)

// grant makes the accounts, roles and bindings among the objects in the namespace of the test, their rules as they are, and
// returns the adapter of the account.
func (s system) grant(t *testing.T, objects []*unstructured.Unstructured) *kube.Client {
	t.Helper()
	account := ""
	for _, o := range objects {
		o = o.DeepCopy()
		field := func(value string, path ...string) {
			require.NoError(t, unstructured.SetNestedField(o.Object, value, path...))
		}
		switch o.GetKind() {
		case "ServiceAccount":
			account = o.GetName()
		case "ClusterRole", "ClusterRoleBinding":
			o.SetName(o.GetName() + "-" + s.namespace)
		case "Role", "RoleBinding":
		default:
			continue
		}
		if o.GetNamespace() != "" {
			o.SetNamespace(s.namespace)
		}
		if kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind"); kind == "ClusterRole" {
			role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
			field(role+"-"+s.namespace, "roleRef", "name")
		}
		if subjects, found, _ := unstructured.NestedSlice(o.Object, "subjects"); found {
			for _, of := range subjects {
				of.(map[string]any)["namespace"] = s.namespace
			}
			require.NoError(t, unstructured.SetNestedSlice(o.Object, subjects, "subjects"))
		}
		_, err := s.resource(t, o).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		require.NoError(t, err, "%s %s", o.GetKind(), o.GetName())
	}
	require.NotEmpty(t, account, "a service account")
	return s.account(t, s.namespace, account)
}

// The roles in manifests/ are enough for everything that a restore, resolve and gc ask of Kubernetes, as the real authorizer
// sees it.
func TestRoles_OfManifests_AreEnoughForARestore(t *testing.T) {
	t.Parallel()
	sources := map[string]func(*testing.T) []*unstructured.Unstructured{
		"rbac.yaml": func(t *testing.T) []*unstructured.Unstructured {
			return documents(t, "../../manifests/rbac.yaml")
		},
		"kustomize/base": func(t *testing.T) []*unstructured.Unstructured { return rendered(t)["kustomize/base"] },
		"helm":           func(t *testing.T) []*unstructured.Unstructured { return rendered(t)["helm"] },
	}
	for name, objects := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openReal(t)
			client := s.grant(t, objects(t))
			s.round(t, client)
			_, err := client.ClusterUID(t.Context())
			require.NoError(t, err)
		})
	}
}

// Three rules are for better answers alone.
func TestRoles_WithoutWhatIsOptional_AreEnoughForARestore(t *testing.T) {
	t.Parallel()
	s := openReal(t)
	rules := clusterRole(t, "../../manifests/rbac.yaml")
	for _, p := range [][2]string{{"list", "events"}, {"get", "pods/log"}, {"get", "namespaces"}} {
		rules = without(rules, p[0], p[1])
	}
	client := s.as(t, rules)
	s.round(t, client)
	_, err := client.ClusterUID(t.Context())
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
}

// round does once whatever a restore does, and requires that nothing is left.
func (s system) round(t *testing.T, client *kube.Client) {
	t.Helper()
	ctx, name := t.Context(), s.name("dst")
	require.NoError(t, client.Allowed(ctx, s.namespace, nil))
	require.NoError(t, client.DryRun(ctx, source(t), s.target("dst"), []kube.RestoredVolume{s.volume(t, "dst", 0)}, false))
	require.NoError(t, client.CreateCluster(ctx, source(t), s.target("dst")))
	require.NoError(t, client.BindVolume(ctx, s.volume(t, "dst", 0)))
	require.NoError(t, client.StartTiKV(ctx, name))
	sets := s.core.AppsV1().StatefulSets(s.namespace)
	_, err := sets.Create(ctx, s.statefulSet("dst", 1), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "a pod is made", func() bool {
		pods, err := client.TiKVPods(ctx, name)
		return err == nil && len(pods) == 1
	})
	_, err = client.Waiting(ctx, name)
	require.NoError(t, err)
	_, err = client.CrashLoops(ctx, name, 1)
	require.NoError(t, err)
	_, err = client.Handles(ctx)
	require.NoError(t, err)
	_, err = client.Leftover(ctx, name, s.run)
	require.NoError(t, err)
	_, err = client.MadeForTarget(ctx, name, s.run)
	require.NoError(t, err)
	_, err = client.Remaining(ctx, name, s.run)
	require.NoError(t, err)
	require.NoError(t, client.LeaveRecovery(ctx, name))
	require.NoError(t, client.StartTiDB(ctx, name))
	require.NoError(t, sets.Delete(ctx, "dst-tikv", metav1.DeleteOptions{}))
	require.NoError(t, client.DeleteCluster(ctx, name, s.run, true))
	eventually(t, "nothing is left", func() bool {
		left, err := client.Leftover(ctx, name, s.run)
		return err == nil && left.Empty()
	})
	s.nothing(t)
}

// What only takes backups may read, and needs each of its reads: without one the backup names it.
func TestRoles_ForBackups_AreEnough(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	s := openReal(t)
	s.node(t, s.zone("a"))
	require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("dst")))
	v := s.volume(t, "dst", 0)
	v.Zone = cluster.Zone(s.zone("a"))
	require.NoError(t, s.client.BindVolume(t.Context(), v))
	_, err := s.core.AppsV1().StatefulSets(s.namespace).Create(t.Context(), s.statefulSet("dst", 1), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the pod has a node", func() bool {
		pods := s.pods(t, "app.kubernetes.io/component=tikv")
		return len(pods) == 1 && pods[0].Spec.NodeName != ""
	})
	pod := s.pods(t, "app.kubernetes.io/component=tikv")[0]
	s.runs(t, &pod)
	read := func(client *kube.Client) error {
		if _, err := client.Cluster(t.Context(), s.name("dst")); err != nil {
			return err
		}
		pods, err := client.TiKVPods(t.Context(), s.name("dst"))
		if err == nil {
			require.Len(t, pods, 1)
		}
		return err
	}
	require.NoError(t, read(s.grant(t, documents(t, "../../manifests/rbac-backup.yaml"))))
	rules := clusterRole(t, "../../manifests/rbac-backup.yaml")
	for _, r := range rules {
		if r.APIGroups[0] == operator2.Group() {
			continue // its definitions are not installed here
		}
		verb, resource := r.Verbs[0], r.Resources[0]
		t.Run(verb+" "+resource, func(t *testing.T) {
			err := read(s.as(t, without(rules, verb, resource)))
			require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, `cannot `+verb+` resource "`+resource+`"`)
		})
	}
}

// The two roles beside rbac.yaml grant the one verb that their files name, and no more; rbac.yaml alone does not. What is asked
// for does not exist here: callers with the permission get NotFound.
func TestRoles_BesideTheRole_GrantTheirVerb(t *testing.T) {
	t.Parallel()
	tlsOf := func(name string) func(*testing.T, system, *kube.Client) error {
		return func(t *testing.T, s system, client *kube.Client) error {
			t.Helper()
			secret := name + "-cluster-client-secret"
			_, err := client.ClientTLS(t.Context(), s.name(name).Namespace, secret, secret)
			return err
		}
	}
	forward := func(t *testing.T, s system, client *kube.Client) error {
		t.Helper()
		f, err := client.Forward()
		require.NoError(t, err)
		defer f.Close()
		_, err = f.Dial(t.Context(), "prod-tikv-0.prod-tikv-peer."+s.namespace+".svc:20160")
		return err
	}
	for name, row := range map[string]struct {
		file string // "" is rbac.yaml alone
		ask  func(*testing.T, system, *kube.Client) error
		want failure.Kind
	}{
		"the secret of a cluster that is named":    {"rbac-tls.yaml", tlsOf("prod"), failure.Unready},
		"the secret of another cluster":            {"rbac-tls.yaml", tlsOf("other"), failure.Denied},
		"a secret, with rbac.yaml alone":           {"", tlsOf("prod"), failure.Denied},
		"a port forward":                           {"rbac-port-forward.yaml", forward, failure.NotFound},
		"a port forward, with rbac.yaml alone":     {"", forward, failure.Denied},
		"a port forward, with the role of secrets": {"rbac-tls.yaml", forward, failure.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openReal(t)
			objects := documents(t, "../../manifests/rbac.yaml")
			if row.file != "" {
				objects = append(objects, documents(t, "../../manifests/"+row.file)...)
			}
			err := row.ask(t, s, s.grant(t, objects))
			require.Equal(t, row.want, failure.KindOf(err), "%v", err)
		})
	}
}
