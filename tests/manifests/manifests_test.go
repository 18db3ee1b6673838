package manifests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// typed decodes an object into Kubernetes' own type and refuses fields that it does not have.
func typed(t *testing.T, u *unstructured.Unstructured) any {
	t.Helper()
	kinds := map[string]any{
		"ServiceAccount": &corev1.ServiceAccount{}, "ConfigMap": &corev1.ConfigMap{}, "Role": &rbacv1.Role{},
		"RoleBinding": &rbacv1.RoleBinding{}, "ClusterRole": &rbacv1.ClusterRole{}, "ClusterRoleBinding": &rbacv1.ClusterRoleBinding{},
		"NetworkPolicy": &networkingv1.NetworkPolicy{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
		"Job": &batchv1.Job{}, "CronJob": &batchv1.CronJob{}, "Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{},
		"ServiceMonitor": &monitoring.ServiceMonitor{}, "PrometheusRule": &monitoring.PrometheusRule{},
	}
	into, ok := kinds[u.GetKind()]
	require.True(t, ok, "kind %s", u.GetKind())
	raw, err := json.Marshal(u)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(raw, into), "%s %s", u.GetKind(), u.GetName())
	return into
}

// podOf is the pod that a Job, CronJob or Deployment makes; nil for other objects.
func podOf(o any) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *batchv1.Job:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	case *appsv1.Deployment:
		return &o.Spec.Template
	}
	return nil
}

func TestKustomize_EachFolder_HasOnlyFieldsOfKubernetes(t *testing.T) {
	t.Parallel()
	for _, folder := range Folders() {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			built := kustomized(t, folder)
			require.NotEmpty(t, built)
			for _, u := range built {
				typed(t, u)
			}
		})
	}
}

// images changes what the CronJob runs: the pods of the Job that it makes run the same.
func TestKustomize_ImageOfWorkers_IsThatOfTheCronJob(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(root, "kustomize"))))
	file := filepath.Join(folder, "overlays/archive-workers/kustomization.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text = append(text, "images:\n  - {name: REGISTRY/tisnap, newName: ours/tisnap, newTag: v7}\n"...)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	built, err := built(filepath.Dir(file))
	require.NoError(t, err)
	job, ok := typed(t, built["CronJob tidb/tisnap-archive"]).(*batchv1.CronJob)
	require.True(t, ok)
	settings, ok := typed(t, built["ConfigMap tidb/tisnap-archive"]).(*corev1.ConfigMap)
	require.True(t, ok)
	assert.Equal(t, "ours/tisnap:v7", podOf(job).Spec.InitContainers[0].Image)
	assert.Equal(t, "ours/tisnap:v7", settings.Data["TISNAP_IMAGE"])
}

// The chart and the folders make the same objects, so that a fix of one is not forgotten in the other.
func TestHelm_MakesTheObjectsOfKustomize(t *testing.T) {
	t.Parallel()
	off := map[string]any{"enabled": false}
	on := map[string]any{"enabled": true}
	kept := map[string]any{"create": false}
	for folder, set := range map[string]map[string]any{
		"base":    {"nightly": off},
		"nightly": {},
		"backup":  {"nightly": off, "backup": on, "serviceAccount": kept, "rbac": kept, "networkPolicy": off},
		"restore": {"nightly": off, "restore": on, "serviceAccount": kept, "rbac": kept, "networkPolicy": off},
		"gc":      {"nightly": off, "gc": on, "serviceAccount": kept, "rbac": kept, "networkPolicy": off},
		"archive": {"nightly": off, "archive": on, "serviceAccount": kept, "rbac": kept, "networkPolicy": off},
		"overlays/archive-claims": {
			"nightly": off, "archiveClaims": on, "serviceAccount": kept, "rbac": kept, "networkPolicy": off,
		},
		"overlays/archive-kms": {
			"nightly": off, "archive": map[string]any{"enabled": true, "keySecret": ""}, "serviceAccount": kept, "rbac": kept, "networkPolicy": off,
		},
		"overlays/archive-workers": {
			"nightly": off, "archive": map[string]any{"enabled": true, "workers": 4}, "serviceAccount": kept, "rbac": kept, "networkPolicy": off,
		},
		"drill":                 {"nightly": off, "drill": on, "serviceAccount": kept, "rbac": kept, "networkPolicy": off},
		"overlays/drill":        {"nightly": off, "gc": on, "drill": on, "serviceAccount": kept, "rbac": kept, "networkPolicy": off},
		"overlays/port-forward": {"nightly": off, "portForward": on},
		"overlays/irsa": {
			"image":          map[string]any{"repository": "111122223333.dkr.ecr.us-west-2.amazonaws.com/tisnap"},
			"serviceAccount": map[string]any{"annotations": map[string]any{"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/tisnap"}},
		},
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			made, err := Helm(set)
			require.NoError(t, err)
			want := kustomized(t, folder)
			for key, u := range want {
				if assert.Contains(t, made, key) {
					assert.Equal(t, typed(t, u), typed(t, made[key]), key)
				}
			}
			assert.Len(t, made, len(want))
		})
	}
}

// Applying a drill leaves the ServiceAccount as it is: without its annotation the nightly backup loses its role in AWS.
func TestRuns_LeaveTheServiceAccountAlone(t *testing.T) {
	t.Parallel()
	for _, folder := range Folders() {
		_, has := kustomized(t, folder)["ServiceAccount tidb/tisnap"]
		require.Equal(t, !slices.Contains([]string{"archive", "backup", "drill", "gc", "restore", "overlays/archive-claims", "overlays/archive-kms", "overlays/archive-workers", "overlays/drill"}, folder), has, folder)
	}
}

// The pods and the bindings take the ServiceAccount that there is, and the chart makes none beside it.
func TestHelm_ServiceAccountThatExists_IsUsed(t *testing.T) {
	t.Parallel()
	on := map[string]any{"enabled": true}
	made, err := Helm(map[string]any{
		"serviceAccount": map[string]any{"create": false, "name": "backups"}, "backup": on, "restore": on, "portForward": on,
	})
	require.NoError(t, err)
	pods, bindings := 0, 0
	for key, u := range made {
		require.NotEqual(t, "ServiceAccount", u.GetKind(), key)
		object := typed(t, u)
		if pod := podOf(object); pod != nil {
			pods++
			require.Equal(t, "backups", pod.Spec.ServiceAccountName, key)
		}
		for _, s := range subjects(object) {
			bindings++
			require.Equal(t, rbacv1.Subject{Kind: "ServiceAccount", Name: "backups", Namespace: "tidb"}, s, key)
		}
	}
	require.Equal(t, 3, pods)
	require.Equal(t, 3, bindings)
}

// subjects are those of a binding; none of other objects.
func subjects(o any) []rbacv1.Subject {
	switch o := o.(type) {
	case *rbacv1.RoleBinding:
		return o.Subjects
	case *rbacv1.ClusterRoleBinding:
		return o.Subjects
	}
	return nil
}

// What dead drills left is removed by each gc beside them, and what is in Kubernetes stays where there are none.
func TestGC_BesideDrills_RemovesWhatTheyLeft(t *testing.T) {
	t.Parallel()
	on := map[string]any{"enabled": true}
	with, err := Helm(map[string]any{"gc": on, "drill": on})
	require.NoError(t, err)
	without, err := Helm(map[string]any{"gc": on})
	require.NoError(t, err)
	for name, row := range map[string]struct {
		objects Objects
		want    bool
	}{
		"chart": {with, true}, "chart without drills": {without, false}, "overlay": {kustomized(t, "overlays/drill"), true},
		"gc alone": {kustomized(t, "gc"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := podOf(typed(t, row.objects["CronJob tidb/tisnap-gc"])).Spec.Containers[0].Args
			require.Equal(t, "gc", args[0])
			require.Equal(t, row.want, slices.Contains(args, "--cluster"), args)
		})
	}
}

// Each run reads settings of its own, so that a drill with another folder, or another storage, changes nothing for the
// nightly backup; and that one is no dry run, whatever its settings.
func TestSettings_AreOfOneFolder(t *testing.T) {
	t.Parallel()
	on := map[string]any{"enabled": true}
	chart, err := Helm(map[string]any{"backup": on, "restore": on, "gc": on, "drill": on, "archive": on})
	require.NoError(t, err)
	made := map[string]Objects{"helm": chart}
	for _, folder := range Folders() {
		made[folder] = kustomized(t, folder)
	}
	of := map[string]string{}
	for from, objects := range made {
		for key, u := range objects {
			if u.GetKind() == "ConfigMap" && from != "helm" && !strings.HasPrefix(from, "overlays/") {
				assert.Empty(t, of[key], "%s: %s has it, too", key, from)
				of[key] = from
			}
			pod := podOf(typed(t, u))
			if pod == nil {
				continue
			}
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				require.Len(t, c.EnvFrom, 1, c.Name)
				assert.Equal(t, u.GetName(), c.EnvFrom[0].ConfigMapRef.Name, "%s: %s", from, c.Name)
				assert.Contains(t, objects, "ConfigMap tidb/"+u.GetName(), from)
				if u.GetKind() == "CronJob" {
					assert.Contains(t, c.Args, "--dry-run=false", "%s: %s", from, c.Name)
				}
			}
		}
	}
	require.Len(t, of, 6)
}

// The secrets of clients are granted by name, for clusters with TLS alone.
func TestHelm_ClustersWithTLS_RoleReadsTheirClientSecrets(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		clusters []any
		want     []string
	}{
		"none": {[]any{}, nil},
		"two":  {[]any{"prod", "copy"}, []string{"prod-cluster-client-secret", "copy-cluster-client-secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, err := Helm(map[string]any{"tlsClusters": row.clusters})
			require.NoError(t, err)
			role, ok := typed(t, made["Role tidb/tisnap"]).(*rbacv1.Role)
			require.True(t, ok)
			var names []string
			for _, r := range role.Rules {
				for _, of := range r.Resources {
					if of == "secrets" {
						require.NotEmpty(t, r.ResourceNames, "all secrets may be read")
						names = append(names, r.ResourceNames...)
					}
				}
			}
			require.Equal(t, row.want, names)
		})
	}
}

func TestHelm_ValuesThatCannotWork_AreRefused(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]map[string]any{
		"no bucket":           {"storage": "backups"},
		"no namespace":        {"cluster": "prod"},
		"a typing error":      {"nightli": map[string]any{}},
		"no rule":             {"nightly": map[string]any{"keep": []any{}}},
		"a number":            {"settings": map[string]any{"TISNAP_STUCK": 1}},
		"a drill each night":  {"settings": map[string]any{"TISNAP_DRY_RUN": "true"}},
		"one name for all":    {"settings": map[string]any{"TISNAP_NAME": "first"}},
		"gc that asks":        {"gc": map[string]any{"args": []any{"prod"}}},
		"a secret's name":     {"imagePullSecrets": []any{"registry"}},
		"a variable's name":   {"extraEnv": []any{map[string]any{"value": "x"}}},
		"a label's number":    {"alerts": map[string]any{"labels": map[string]any{"release": 1}}},
		"an empty image":      {"image": map[string]any{"repository": "", "tag": "v1"}},
		"a verb too many":     {"portForward": map[string]any{"verbs": []any{"*"}}},
		"an empty subject":    {"portForward": map[string]any{"subjects": []any{map[string]any{"kind": "User"}}}},
		"an archive in EBS":   {"archive": map[string]any{"repo": "vol-1"}},
		"a line too many":     {"archive": map[string]any{"workerEnv": map[string]any{"A": "b\nC=d"}}},
		"half a worker":       {"archive": map[string]any{"workers": 0.5}},
		"a rule that is none": {"nightly": map[string]any{"keep": []any{"--yes"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Helm(set)
			require.Error(t, err)
		})
	}
}

// Pod Security's level "restricted" (https://kubernetes.io/docs/concepts/security/pod-security-standards/), and a root
// that cannot be written.
func TestPods_AreRestricted(t *testing.T) {
	t.Parallel()
	for _, folder := range Folders() {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			for key, u := range kustomized(t, folder) {
				pod := podOf(typed(t, u))
				if pod == nil {
					continue
				}
				require.True(t, *pod.Spec.SecurityContext.RunAsNonRoot, key)
				require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.Spec.SecurityContext.SeccompProfile.Type)
				for _, v := range pod.Spec.Volumes {
					require.NotNil(t, v.Secret, "%s: no folder of a node, and none that can be written", v.Name)
				}
				for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
					require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, c.Name)
					require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, c.Name)
					require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop, c.Name)
					require.NotEqual(t, "tisnap", c.Image, "the image's place is not filled in")
				}
				// The hold is released in a moment; the late answers of EC2 get the rest.
				require.GreaterOrEqual(t, *pod.Spec.TerminationGracePeriodSeconds, int64(30))
			}
		})
	}
}

// What has a namespace is granted in it alone, and the two roles together are the one of rbac.yaml.
func TestRoles_AreThoseOfTheClusterWideOne(t *testing.T) {
	t.Parallel()
	grants := func(rules []rbacv1.PolicyRule) (out []string) {
		for _, r := range rules {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out = append(out, strings.Join([]string{verb, r.APIGroups[0], resource, strings.Join(r.ResourceNames, " ")}, " "))
				}
			}
		}
		return out
	}
	text, err := os.ReadFile("../../manifests/rbac.yaml")
	require.NoError(t, err)
	whole := Objects{}
	require.NoError(t, whole.add(text))
	built := kustomized(t, "base")
	inside, ok := typed(t, built["Role tidb/tisnap"]).(*rbacv1.Role)
	require.True(t, ok)
	outside, ok := typed(t, built["ClusterRole /tisnap-volumes"]).(*rbacv1.ClusterRole)
	require.True(t, ok)
	want, ok := typed(t, whole["ClusterRole /tisnap"]).(*rbacv1.ClusterRole)
	require.True(t, ok)
	require.ElementsMatch(t, grants(want.Rules), append(grants(inside.Rules), grants(outside.Rules)...))
	for _, r := range outside.Rules {
		require.Subset(t, []string{"persistentvolumes", "nodes", "storageclasses", "namespaces"}, r.Resources)
	}
}

// A drill's namespace is made when it begins: its role is what a restore and a drill need, in all namespaces.
func TestDrill_RoleIsThoseOfTheFiles(t *testing.T) {
	t.Parallel()
	grants := func(rules []rbacv1.PolicyRule) map[string]bool {
		out := map[string]bool{}
		for _, r := range rules {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out[strings.Join([]string{verb, r.APIGroups[0], resource}, " ")] = true
				}
			}
		}
		return out
	}
	var rules []rbacv1.PolicyRule
	for file, name := range map[string]string{"rbac.yaml": "tisnap", "rbac-drill.yaml": "tisnap-drill"} {
		text, err := os.ReadFile("../../manifests/" + file)
		require.NoError(t, err)
		whole := Objects{}
		require.NoError(t, whole.add(text))
		role, ok := typed(t, whole["ClusterRole /"+name]).(*rbacv1.ClusterRole)
		require.True(t, ok)
		rules = append(rules, role.Rules...)
	}
	built, ok := typed(t, kustomized(t, "drill")["ClusterRole /tisnap-drill"]).(*rbacv1.ClusterRole)
	require.True(t, ok)
	require.Equal(t, grants(rules), grants(built.Rules))
}

// The role of port forwards is an option, and the same in the file, the folder and the chart.
func TestPortForward_IsAnOptionAndTheSameEverywhere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../manifests/rbac-port-forward.yaml")
	require.NoError(t, err)
	file := Objects{}
	require.NoError(t, file.add(text))
	user := map[string]any{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}
	chart, err := Helm(map[string]any{"portForward": map[string]any{"enabled": true, "subjects": []any{user}}})
	require.NoError(t, err)
	folder := kustomized(t, "overlays/port-forward")
	const role, binding = "Role tidb/tisnap-port-forward", "RoleBinding tidb/tisnap-port-forward"
	for _, key := range []string{role, binding} {
		require.Contains(t, file, key)
		require.Equal(t, typed(t, file[key]), typed(t, folder[key]))
	}
	require.Equal(t, typed(t, file[role]), typed(t, chart[role]))
	bound, ok := typed(t, chart[binding]).(*rbacv1.RoleBinding)
	require.True(t, ok)
	require.Equal(t, []rbacv1.Subject{{Kind: "User", Name: "ann", APIGroup: "rbac.authorization.k8s.io"}}, bound.Subjects)

	without, err := Helm(nil)
	require.NoError(t, err)
	require.NotContains(t, without, role)
	require.NotContains(t, kustomized(t, "base"), role)
}

// kustomization.yaml is for kubectl; no folder is left out of the tests.
func TestFolders_AreAllTested(t *testing.T) {
	t.Parallel()
	var found []string
	root := "../../manifests/kustomize"
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "kustomization.yaml" {
			rel, relErr := filepath.Rel(root, filepath.Dir(path))
			found = append(found, filepath.ToSlash(rel))
			return relErr
		}
		return err
	}))
	require.ElementsMatch(t, Folders(), found)
}
