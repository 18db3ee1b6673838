package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMakeImage_BothTools_BuildBothTargets has tools on PATH that note how they are called: neither docker nor buildah need be
// there. make test-image builds the images with buildah, twice, and compares them.
func TestMakeImage_BothTools_BuildBothTargets(t *testing.T) {
	t.Parallel()
	const common = " --build-arg VERSION=v9 --build-arg COMMIT=abc --build-arg SOURCE_DATE_EPOCH=7 -t "
	for name, c := range map[string]struct {
		tools []string
		call  string
	}{
		"docker":                    {[]string{"docker"}, "docker build"},
		"docker is taken before it": {[]string{"docker", "buildah"}, "docker build"},
		"buildah":                   {[]string{"buildah"}, "buildah bud --timestamp=7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
			for _, tool := range c.tools {
				script := "#!/bin/sh\necho \"$(basename \"$0\") $*\" >>" + calls + "\n"
				require.NoError(t, os.WriteFile(filepath.Join(bin, tool), []byte(script), 0o700))
			}
			for _, needed := range []string{"make", "basename", "git"} {
				at, err := exec.LookPath(needed)
				require.NoError(t, err)
				require.NoError(t, os.Symlink(at, filepath.Join(bin, needed)))
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "make"),
				"image", "VERSION=v9", "COMMIT=abc", "EPOCH=7", "IMAGE=registry.example/tisnap:v9", "IMAGE_BR=registry.example/br:v9")
			cmd.Dir, cmd.Env = "..", []string{"PATH=" + bin, "HOME=" + t.TempDir()}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			text, err := os.ReadFile(calls)
			require.NoError(t, err)
			assert.Equal(t, []string{
				c.call + " --target tisnap" + common + "registry.example/tisnap:v9 .",
				c.call + " --target br" + common + "registry.example/br:v9 .",
			}, strings.Split(strings.TrimSpace(string(text)), "\n"))
		})
	}
}
