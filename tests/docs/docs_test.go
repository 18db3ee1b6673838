package docs_test

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/docs"
)

func TestPages_OfTheModule(t *testing.T) {
	t.Parallel()
	pages, err := docs.Pages("../..")
	require.NoError(t, err)
	assert.Contains(t, pages, "docs/eks.md")
	_, err = docs.Pages(t.TempDir())
	require.Error(t, err, "no page is an error")
}

func TestBlocks_Samples(t *testing.T) {
	t.Parallel()
	got := docs.Blocks("# Title\n<!-- transcript: one -->\n```console\n$ a\nb\n```\ntext\n\n```sh\nc\n```\n")
	assert.Equal(t, []docs.Block{
		{Language: "console", Marker: "transcript: one", Text: "$ a\nb\n", Line: 3}, {Language: "sh", Text: "c\n", Line: 9},
	}, got)
}

func TestCommandLines_Samples(t *testing.T) {
	t.Parallel()
	page := "run `tisnap gc` and `kubectl tisnap list -o json`, or `tisnap COMMAND --help`\n" +
		"```\n$ tisnap backup a/b \\\n    --dry-run # a note --not-a-flag\nsudo ln -s tisnap /x\nkubectl get pods --wide\n" +
		"tisnap restore x --az-map 2a=2b > out\nargs: [restore, nightly-1, --to, tidb/copy]\n```\nand `br restore full`\n"
	assert.Equal(t, []string{
		"tisnap gc", "tisnap list -o json", "tisnap COMMAND --help", "tisnap backup a/b --dry-run",
		"tisnap restore x --az-map 2a=2b", "tisnap restore nightly-1 --to tidb/copy",
	}, docs.CommandLines(page, "tisnap"))
	assert.Equal(t, []string{"br restore full"}, docs.CommandLines(page, "br"))
}

func TestUnknown_Samples(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"x hold status a/b -o json": "", "x COMMAND --help": "", "x completion bash": "", "x list --name=y": "", "x list --name…": "",
		"x hold start": "hold start", "x undo": "undo", "x list --details": "--details", "x list -z": "-z",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			root := &cobra.Command{Use: "x", Args: cobra.ArbitraryArgs}
			list := &cobra.Command{Use: "list NAME", Run: func(*cobra.Command, []string) {}}
			list.Flags().String("name", "", "")
			hold := &cobra.Command{Use: "hold"}
			status := &cobra.Command{Use: "status NAME", Run: list.Run}
			status.Flags().StringP("output", "o", "", "")
			hold.AddCommand(status)
			root.AddCommand(list, hold)
			assert.Equal(t, want, docs.Unknown(root, line))
		})
	}
}
