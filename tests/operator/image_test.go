package operator_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/operator"
)

// stage is one image of the Dockerfile: what it is made from, and its instructions.
type stage struct {
	name, base   string
	instructions [][2]string
}

func (s stage) all(word string) []string {
	var out []string
	for _, i := range s.instructions {
		if i[0] == word {
			out = append(out, i[1])
		}
	}
	return out
}

// dockerfile reads the stages of the Dockerfile.
func dockerfile(t *testing.T) []stage {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	var stages []stage
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if from := regexp.MustCompile(`^FROM (\S+) AS (\S+)$`).FindStringSubmatch(line); from != nil {
			stages = append(stages, stage{name: from[2], base: from[1]})
			continue
		}
		require.NotEmpty(t, stages, "%s: before the first FROM name AS stage", line)
		last := &stages[len(stages)-1]
		last.instructions = append(last.instructions, [2]string{word, rest})
	}
	return stages
}

// The image of br has what the recorded init container runs: a shell, cp, and br at /br; neither image runs as root.
func TestDockerfile_Images_WorkAsToolImage(t *testing.T) {
	t.Parallel()
	stages := dockerfile(t)
	byName := map[string]stage{}
	var names []string
	for _, s := range stages {
		names = append(names, s.name)
		byName[s.name] = s
	}
	require.Equal(t, []string{"build", "br", "tisnap"}, names, "the last one is what docker build makes without --target")
	for _, name := range []string{"br", "tisnap"} {
		s := byName[name]
		require.Equal(t, []string{"65532:65532"}, s.all("USER"), name)
		require.Empty(t, s.all("RUN"), "%s: nothing is run in a shipped image", name)
		require.Len(t, s.all("ENTRYPOINT"), 1, name)
	}
	require.Equal(t, "scratch", byName["tisnap"].base)
	br := byName["br"]
	require.Regexp(t, `^busybox:\d+\.\d+\.\d+-musl$`, br.base, "pinned, and with /bin/sh and cp")
	require.True(t, slices.Contains(br.all("COPY"), "--from=build --chmod=0755 /src/bin/br /br"), "%v", br.all("COPY"))

	for _, job := range operator.Jobs() {
		recorded, err := operator.RecordedJob(job)
		require.NoError(t, err)
		for _, c := range recorded.Spec.Template.Spec.InitContainers {
			require.Equal(t, []string{"/bin/sh", "-c"}, c.Command, job)
			require.Regexp(t, `^cp /br /var/lib/br-bin/br; echo `, c.Args[0], "%s: all that the image needs", job)
		}
	}
}
