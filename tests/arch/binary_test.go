package arch_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/arch"
)

// TestBinary_StaysSmall builds the shipped programs as the Makefile does.
func TestBinary_StaysSmall(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"tisnap", "br"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), program)
			link(t, program, path, "-s -w")
			info, err := os.Stat(path)
			require.NoError(t, err)
			if info.Size() <= arch.MaxBinaryBytes {
				return
			}
			culprit, err := arch.Reflector(link(t, program, path, "-s -w -dumpdep"))
			require.NoError(t, err)
			if culprit == nil {
				assert.Failf(t, "the stripped program is too large", "%d bytes, at most %d are allowed; no dependency calls methods by name",
					info.Size(), arch.MaxBinaryBytes)
				return
			}
			assert.Failf(t, "the stripped program is too large",
				"%d bytes, at most %d are allowed: methods are called by name in %s, so the linker keeps every method",
				info.Size(), arch.MaxBinaryBytes, strings.Join(culprit, " → "))
		})
	}
}

// link builds a program with the Makefile's tags and returns what the linker printed.
func link(t *testing.T, program, path, ldflags string) *bytes.Buffer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", tags(t), "-ldflags", ldflags,
		"-o", path, "./cmd/"+program)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var output bytes.Buffer
	cmd.Stderr = &output
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %.2000s", err, output.String())
	}
	return &output
}

// tags are the build tags of make build.
func tags(t *testing.T) string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^TAGS\s*:?=\s*(\S+)$`).FindSubmatch(makefile)
	require.NotNil(t, found, "the Makefile has no line TAGS := …")
	require.Contains(t, string(makefile), "-tags=$(TAGS)")
	return string(found[1])
}

func TestEveryBuild_HasTheTags(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"pkg/testbed/shipped/shipped.go", "README.md"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(root, file))
			require.NoError(t, err)
			assert.Contains(t, string(text), tags(t))
		})
	}
	t.Run("Dockerfile", func(t *testing.T) {
		t.Parallel()
		text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
		require.NoError(t, err)
		assert.Contains(t, string(text), "RUN make build")
		assert.NotContains(t, string(text), "go build")
	})
}

func TestReflector(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dump string
		want []string
	}{
		"none": {dump: "_ -> main.main\nmain.main -> fmt.Println\n"},
		"a chain": {
			dump: `# github.com/tisnap/tisnap/cmd/tisnap
_ -> main.main
main.main -> google.golang.org/grpc.NewClient
google.golang.org/grpc.NewClient -> google.golang.org/grpc.(*clientStream).newAttemptLocked
google.golang.org/grpc.(*clientStream).newAttemptLocked -> golang.org/x/net/trace.New
golang.org/x/net/trace.New -> type:golang.org/x/net/trace.data <UsedInIface>
type:golang.org/x/net/trace.data <UsedInIface> -> html/template.(*Template).Execute
html/template.(*Template).Execute -> text/template.(*state).evalField <ReflectMethod>
main.main -> text/template.(*state).evalField <ReflectMethod>
`,
			want: []string{"main", "google.golang.org/grpc", "golang.org/x/net/trace", "html/template", "text/template"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := arch.Reflector(strings.NewReader(c.dump))
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}
