package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// exporterPod is the part of manifests/monitoring/exporter.yaml that the program has to agree with.
type exporterPod struct {
	Kind string
	Spec struct {
		Ports     []struct{ Port, TargetPort any }
		Endpoints []struct{ Port string }
		Template  struct {
			Spec struct {
				HostNetwork, HostPID bool
				Volumes              []any
				Containers           []exporterContainer
			}
		}
	}
}

type exporterContainer struct {
	Args  []string
	Ports []struct {
		Name          string
		ContainerPort int
	}
	ReadinessProbe  struct{ HTTPGet struct{ Path, Port string } }
	LivenessProbe   struct{ HTTPGet struct{ Path, Port string } }
	SecurityContext struct {
		AllowPrivilegeEscalation, ReadOnlyRootFilesystem, RunAsNonRoot bool
		Capabilities                                                   struct{ Drop, Add []string }
		SeccompProfile                                                 struct{ Type string }
	}
}

// The exporter's manifest calls the program with flags that it has, asks it on the port that it listens at, and its pod
// keeps the restricted Pod Security level. make test-kube tries it on a real API server.
func TestExporterManifest_FitsTheProgram(t *testing.T) {
	t.Parallel()
	objects := exporterObjects(t)
	pod := objects["Deployment"].Spec.Template.Spec
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]

	a := &app{streams: Streams{Out: new(bytes.Buffer), Err: new(bytes.Buffer)}}
	cmd, rest, err := a.root().Find(c.Args)
	require.NoError(t, err)
	require.Equal(t, "exporter", cmd.Name())
	require.NoError(t, cmd.ParseFlags(rest))
	assert.Empty(t, cmd.Flags().Args())
	assert.Equal(t, "s3://BUCKET/PREFIX", a.global.storage)
	require.Len(t, c.Ports, 1)
	assert.Equal(t, ":9090", cmd.Flag("listen").Value.String())
	assert.Equal(t, 9090, c.Ports[0].ContainerPort)
	assert.Equal(t, c.Ports[0].Name, objects["ServiceMonitor"].Spec.Endpoints[0].Port)
	assert.Equal(t, c.Ports[0].Name, objects["Service"].Spec.Ports[0].TargetPort)
	for path, probe := range map[string]struct{ Path, Port string }{"/-/ready": c.ReadinessProbe.HTTPGet, "/-/healthy": c.LivenessProbe.HTTPGet} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, path, probe.Path)
			assert.Equal(t, c.Ports[0].Name, probe.Port)
		})
	}
	assert.False(t, pod.HostNetwork || pod.HostPID)
	assert.Empty(t, pod.Volumes)
	s := c.SecurityContext
	assert.False(t, s.AllowPrivilegeEscalation)
	assert.True(t, s.RunAsNonRoot && s.ReadOnlyRootFilesystem)
	assert.Equal(t, []string{"ALL"}, s.Capabilities.Drop)
	assert.Empty(t, s.Capabilities.Add)
	assert.Equal(t, "RuntimeDefault", s.SeccompProfile.Type)
}

// exporterObjects are the manifest's objects by kind.
func exporterObjects(t *testing.T) map[string]exporterPod {
	t.Helper()
	text, err := os.ReadFile("../../manifests/monitoring/exporter.yaml")
	require.NoError(t, err)
	out := map[string]exporterPod{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var p exporterPod
		require.NoError(t, yaml.Unmarshal([]byte(document), &p))
		out[p.Kind] = p
	}
	return out
}
