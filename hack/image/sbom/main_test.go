package main

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

func TestWrite_ListsEveryModuleThatIsLinked_AlikeEachTime(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, write(program))
	first, err := os.ReadFile(program + ".cdx.json")
	require.NoError(t, err)
	require.NoError(t, write(program))
	second, err := os.ReadFile(program + ".cdx.json")
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))

	file, err := os.Open(program + ".cdx.json")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var bom cyclonedx.BOM
	require.NoError(t, cyclonedx.NewBOMDecoder(file, cyclonedx.BOMFileFormatJSON).Decode(&bom))
	require.Equal(t, "github.com/tisnap/tisnap/hack/image/sbom", bom.Metadata.Component.Name)
	require.Empty(t, bom.Metadata.Timestamp)
	require.Empty(t, bom.SerialNumber)
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	require.NotEmpty(t, info.Deps)
	listed := map[string]string{}
	for _, c := range *bom.Components {
		listed[c.Name] = c.Version
	}
	require.Equal(t, info.GoVersion, "go"+listed["std"])
	for _, m := range info.Deps {
		require.Equal(t, m.Version, listed[m.Path], m.Path)
	}
	require.Len(t, listed, 1+len(info.Deps))
}

func TestWrite_NoGoProgram_IsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(path, []byte("none"), 0o600))
	require.Error(t, write(path))
	require.NoFileExists(t, path+".cdx.json")
}
