package release

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const root = "../.."

type build struct {
	ID, Main, Binary          string
	Env, Flags, Tags, LDFlags []string
	GOOS, GOARCH              []string
	Timestamp                 string `json:"mod_timestamp"`
}

type content struct{ Src, Dst, Type string }

// config is what this test reads of .goreleaser.yaml.
type config struct {
	Version  int
	Before   struct{ Hooks []string }
	Builds   []build
	Archives []struct {
		ID    string
		IDs   []string
		Files []string
	}
	NFPMs []struct {
		IDs      []string
		Formats  []string
		Contents []content
	}
	SBOMs    []struct{ Artifacts string }
	Checksum struct {
		Name string `json:"name_template"`
	}
	Krews []struct {
		Name, Homepage, Description, Caveats string
		IDs                                  []string
		Short                                string `json:"short_description"`
	}
}

func read(t *testing.T) config {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	require.NoError(t, err)
	var c config
	require.NoError(t, yaml.Unmarshal(body, &c))
	require.Equal(t, 2, c.Version)
	return c
}

// The programs are built as make builds them, for each system that they are released for.
func TestBuilds_AreThoseOfMake(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	setting := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + ` +:= (.*)$`).FindSubmatch(makefile)
		require.NotNil(t, m, name)
		return string(m[1])
	}
	systems := map[string][]string{}
	for _, b := range read(t).Builds {
		systems[b.ID] = b.GOOS
		assert.Equal(t, []string{"amd64", "arm64"}, b.GOARCH)
		assert.Equal(t, []string{"CGO_ENABLED=0"}, b.Env)
		assert.Equal(t, []string{setting("TAGS")}, b.Tags)
		assert.Equal(t, setting("export GOFLAGS"), strings.Join(b.Flags, " ")+" -tags=$(TAGS)")
		require.Len(t, b.LDFlags, 1)
		flags := strings.NewReplacer("{{ .Tag }}", "$(VERSION)", "{{ .FullCommit }}", "$(COMMIT)").Replace(b.LDFlags[0])
		assert.Equal(t, setting("LDFLAGS"), flags)
		assert.NotEmpty(t, b.Timestamp, "the same sources give the same archive")
		main, err := os.ReadFile(filepath.Join(root, b.Main, "main.go"))
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`-X main\.(\w+)=`).FindAllStringSubmatch(b.LDFlags[0], -1) {
			assert.Regexp(t, `(?m)^\t?(var )?`+m[1]+` += "`, string(main), "the linker ignores a variable that is not there")
		}
	}
	assert.Equal(t, map[string][]string{"tisnap": {"linux", "darwin"}, "br": {"linux"}}, systems)
}

// Each file of an archive or a package is in the sources, or made by a target that runs before.
func TestFiles_AreThereOrMade(t *testing.T) {
	t.Parallel()
	c := read(t)
	require.Equal(t, []string{"make man completions"}, c.Before.Hooks)
	check := func(pattern string) {
		if made := regexp.MustCompile(`^bin/(man|completions)/`); made.MatchString(pattern) {
			makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
			require.NoError(t, err)
			target := regexp.MustCompile(`(?m)^` + made.FindStringSubmatch(pattern)[1] + `:`)
			assert.True(t, target.Match(makefile), "no target makes %s", pattern)
			return
		}
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		assert.NotEmpty(t, found, pattern)
	}
	ids := map[string]bool{}
	for _, b := range c.Builds {
		ids[b.ID] = true
	}
	for _, a := range c.Archives {
		assert.True(t, ids[a.IDs[0]], a.IDs)
		for _, f := range a.Files {
			check(f)
		}
	}
	require.Len(t, c.NFPMs, 1)
	assert.Equal(t, []string{"deb", "rpm"}, c.NFPMs[0].Formats)
	links := []string{}
	for _, f := range c.NFPMs[0].Contents {
		if f.Type == "symlink" {
			links = append(links, filepath.Base(f.Dst))
			assert.Equal(t, "tisnap", f.Src)
			continue
		}
		check(f.Src)
	}
	assert.Equal(t, []string{"kubectl-tisnap", "kubectl_complete-tisnap"}, links, "kubectl finds both by their names")
	require.Len(t, c.SBOMs, 1)
	assert.Equal(t, "archive", c.SBOMs[0].Artifacts)
}

// The fields that krew requires, with the limits of its index.
func TestKrew_HasWhatTheIndexAsksFor(t *testing.T) {
	t.Parallel()
	c := read(t)
	require.Len(t, c.Krews, 1)
	k := c.Krews[0]
	assert.Regexp(t, `^[a-z0-9-]+$`, k.Name)
	assert.False(t, strings.HasPrefix(k.Name, "kubectl-"))
	assert.LessOrEqual(t, len(k.Short), 50)
	assert.NotRegexp(t, `(?i)kubectl|plugin|\.$`, k.Short)
	assert.Regexp(t, `^https://github\.com/`, k.Homepage)
	assert.Equal(t, []string{"tisnap"}, k.IDs)
	for line := range strings.Lines(k.Description + k.Caveats) {
		assert.LessOrEqual(t, len(line), 120)
	}
}

// The release that make test-release builds.
func TestRelease_Built(t *testing.T) {
	t.Parallel()
	dist := os.Getenv("TISNAP_TEST_RELEASE")
	if dist == "" {
		t.Skip("make test-release")
	}
	sums, err := os.ReadFile(filepath.Join(dist, "checksums.txt"))
	require.NoError(t, err)
	assert.Equal(t, 4+2+2*2, bytes.Count(sums, []byte("\n")), "archives of tisnap and br, packages: %s", sums)
	body, err := os.ReadFile(filepath.Join(dist, "krew", "tisnap.yaml"))
	require.NoError(t, err)
	var manifest struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				URI, SHA256, Bin string
				Selector         struct{ MatchLabels map[string]string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(body, &manifest))
	assert.Equal(t, "krew.googlecontainertools.github.com/v1alpha2", manifest.APIVersion)
	assert.Equal(t, "Plugin", manifest.Kind)
	assert.Equal(t, "tisnap", manifest.Metadata.Name)
	assert.Regexp(t, `^v\d+\.\d+\.\d+`, manifest.Spec.Version)
	assert.NotEmpty(t, manifest.Spec.ShortDescription)
	require.Len(t, manifest.Spec.Platforms, 4)
	for _, p := range manifest.Spec.Platforms {
		assert.Equal(t, "tisnap", p.Bin)
		assert.Contains(t, string(sums), p.SHA256+"  "+filepath.Base(p.URI))
		assert.Len(t, p.Selector.MatchLabels, 2)
	}
}

// What a tag starts attests the files of the release that .goreleaser.yaml describes, by the goreleaser that checks it.
func TestWorkflow_AttestsWhatIsReleased(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile(filepath.Join(root, ".github/workflows/release.yaml"))
	require.NoError(t, err)
	var workflow struct {
		Jobs map[string]struct {
			Permissions map[string]string
			Steps       []struct {
				Uses string
				With map[string]any
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(body, &workflow))
	job := workflow.Jobs["release"]
	require.Equal(t, map[string]string{"contents": "write", "id-token": "write", "attestations": "write"}, job.Permissions)
	with := map[string]map[string]any{}
	for _, s := range job.Steps {
		action, _, _ := strings.Cut(s.Uses, "@")
		with[action] = s.With
	}
	require.Equal(t, "dist/"+read(t).Checksum.Name, with["actions/attest-build-provenance"]["subject-checksums"])
	script, err := os.ReadFile("check.sh")
	require.NoError(t, err)
	made := with["goreleaser/goreleaser-action"]
	require.Contains(t, string(script), "\nversion="+made["version"].(string)+"\n")
	require.Equal(t, "release --clean", made["args"])
	require.Contains(t, with, "anchore/sbom-action/download-syft", "goreleaser makes the SBOMs by it")
}
