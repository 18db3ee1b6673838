package manifests

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kinds are those of the objects that tisnap has users apply, by the words that kubectl takes for them.
var kinds = map[string]string{
	"job": "Job", "cronjob": "CronJob", "deployment": "Deployment", "deploy": "Deployment", "configmap": "ConfigMap", "cm": "ConfigMap",
	"serviceaccount": "ServiceAccount", "sa": "ServiceAccount", "service": "Service", "svc": "Service", "role": "Role", "rolebinding": "RoleBinding",
	"clusterrole": "ClusterRole", "clusterrolebinding": "ClusterRoleBinding", "networkpolicy": "NetworkPolicy", "pdb": "PodDisruptionBudget",
	"poddisruptionbudget": "PodDisruptionBudget", "servicemonitor": "ServiceMonitor", "prometheusrule": "PrometheusRule",
}

// others are objects that the documents name and that tisnap does not have users apply.
var others = map[string]string{
	"Deployment ebs-csi-controller":      "the EBS CSI driver's",
	"Deployment tidb-controller-manager": "TiDB Operator 1.x's",
	"Deployment tidb-operator":           "TiDB Operator 2.x's",
	"Job first":                          "kubectl makes it from the CronJob",
}

// Every object that the documents give to kubectl, or name with its kind, is one that the manifests make.
func TestDocs_ObjectsExist(t *testing.T) {
	t.Parallel()
	made := madeObjects(t)
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	found := 0
	for _, page := range append(pages, "../../README.md", "../../manifests/README.md", "../../SECURITY.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, object := range namedObjects(string(text)) {
			found++
			assert.True(t, made[object] || others[object] != "", "%s names %s", page, object)
		}
	}
	assert.Greater(t, found, 5, "the documents name objects")
}

func TestNamedObjects_Samples(t *testing.T) {
	t.Parallel()
	text := "`kubectl -n tidb patch cronjob tisnap-x -p '{}'`, CronJob `tisnap-y` and the ServiceAccount `tisnap`; a job `none` is no object\n" +
		"```\nkubectl -n tidb logs -f job/a\nkubectl -n tidb delete job b c\nkubectl get pods,jobs -A\n```\n"
	assert.Equal(t, []string{"CronJob tisnap-x", "Job a", "Job b", "CronJob tisnap-y", "ServiceAccount tisnap"}, namedObjects(text))
}

// namedObjects returns what a text names as "Kind name": what a command line gives to kubectl, and "Kind `name`".
func namedObjects(text string) (out []string) {
	given := regexp.MustCompile(`\b(` + strings.Join(slices.Collect(maps.Keys(kinds)), "|") + `)(?:/| )([a-z][a-z0-9-]*)\b`)
	command := regexp.MustCompile("kubectl (?:-n [^ ]+ )?(?:get|describe|logs|patch|delete|wait|rollout|create|scale) [^`\n]*")
	for _, line := range command.FindAllString(text, -1) {
		for _, m := range given.FindAllStringSubmatch(line, -1) {
			out = append(out, kinds[m[1]]+" "+m[2])
		}
	}
	for _, m := range regexp.MustCompile("\\b([A-Z][A-Za-z]+) `([a-z][a-z0-9-]*)`").FindAllStringSubmatch(text, -1) {
		if kinds[strings.ToLower(m[1])] == m[1] {
			out = append(out, m[1]+" "+m[2])
		}
	}
	return out
}

// madeObjects are those of all folders, of the chart with everything on, and of the other files, as "Kind name".
func madeObjects(t *testing.T) map[string]bool {
	t.Helper()
	all := Objects{}
	for _, folder := range Folders() {
		built := kustomized(t, folder)
		for key, o := range built {
			all[key] = o
		}
	}
	for _, pattern := range []string{"*.yaml", "monitoring/exporter.yaml", "monitoring/prometheusrule.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			objects := Objects{}
			require.NoError(t, objects.add(text), file)
			for key, o := range objects {
				all[key] = o
			}
		}
	}
	out := map[string]bool{}
	for _, o := range all {
		out[o.GetKind()+" "+o.GetName()] = true
	}
	require.True(t, out["CronJob tisnap-nightly"] && out["Deployment tisnap-exporter"])
	return out
}
