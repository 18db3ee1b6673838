package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// userPages are the Markdown pages that a user reads, by their path in the module.
func userPages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "manifests/*.md"} {
		files, err := filepath.Glob(filepath.Join("../..", pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			out[strings.TrimPrefix(filepath.ToSlash(file), "../../")] = string(text)
		}
	}
	require.Contains(t, out, "README.md")
	require.Contains(t, out, "docs/commands.md")
	return out
}

// The documented table of exit codes and kinds is the program's.
func TestDocs_ExitCodes(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile("(?m)^\\| (\\d+) \\| ([^|]+) \\| (?:`([a-z-]+)` )?\\|$")
	got := map[string][2]string{}
	for _, m := range row.FindAllStringSubmatch(userPages(t)["docs/scripting.md"], -1) {
		got[m[1]] = [2]string{m[2], m[3]}
	}
	want := map[string][2]string{
		"0":   {"done as asked"},
		"130": {"interrupted by Ctrl-C; what was held is released", kindName(ExitInterrupted, failure.Unknown)},
		"143": {"interrupted by SIGTERM; what was held is released", kindName(ExitTerminated, failure.Limited)},
	}
	for _, c := range exitCodes {
		want[strconv.Itoa(int(c.code))] = [2]string{c.meaning, c.kind.String()}
	}
	assert.Equal(t, want, got)
}

func TestDocs_NameEveryCommand(t *testing.T) {
	t.Parallel()
	text := userPages(t)["docs/commands.md"]
	for _, cmd := range (&app{}).root().Commands() {
		if cmd.Name() != "help" {
			assert.Contains(t, text, "`tisnap "+cmd.Name(), "docs/commands.md says what it is for")
		}
	}
}

// Every command line of tisnap in the documents, and every flag that they name alone, exists.
func TestDocs_CommandsAndFlagsExist(t *testing.T) { //nolint:tparallel // the cases count together
	t.Parallel()
	found := 0
	for name, text := range userPages(t) {
		t.Run(name, func(t *testing.T) {
			for _, line := range commandLines(text) {
				found++
				assert.Empty(t, unknown(line), "%q", line)
			}
			if name == "docs/br.md" {
				return // its flags are br's: pkg/brcompat compares them
			}
			for _, m := range regexp.MustCompile("`--([a-z][a-z-]*)").FindAllStringSubmatch(text, -1) {
				assert.True(t, hasFlag(m[1]), "it names --%s", m[1])
			}
		})
	}
	assert.Greater(t, found, 40, "the documents name commands")
}

// Every field of what commands print as JSON is documented.
func TestDocs_FieldsOfResults(t *testing.T) {
	t.Parallel()
	page := userPages(t)["docs/scripting.md"]
	for _, document := range []any{
		backupDoc{}, planDoc{}, describeDoc{}, gcDoc{}, holdDoc{}, listDoc{}, releasedDoc{}, releasePlan{},
		runReportDoc{}, estimateDoc{}, resolveDoc{}, resolvePlanDoc{}, restoreDoc{}, restorePlanDoc{}, versionDoc{},
		runsDoc{}, runDoc{}, abortedDoc{}, startedDoc{}, pruneDoc{},
	} {
		of := reflect.TypeOf(document)
		t.Run(of.Name(), func(t *testing.T) {
			t.Parallel()
			for _, field := range reflect.VisibleFields(of) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if name != "" && name != "-" {
					assert.Regexp(t, "`"+name+"(\\[\\])?`", page, "docs/scripting.md says that it is there")
				}
			}
		})
	}
}

func TestCommandLines_Samples(t *testing.T) {
	t.Parallel()
	got := commandLines("run `tisnap gc` and `kubectl tisnap list -o json`, or `tisnap COMMAND --help`\n" +
		"```\n$ tisnap backup a/b \\\n    --dry-run # a note --not-a-flag\nsudo ln -s tisnap /x\nkubectl get pods --wide\n" +
		"args: [restore, nightly-1, --to, tidb/copy]\n```\n")
	assert.Equal(t, []string{
		"tisnap gc", "tisnap list -o json", "tisnap COMMAND --help", "tisnap backup a/b --dry-run", "tisnap restore nightly-1 --to tidb/copy",
	}, got)
	for line, want := range map[string]string{
		"tisnap hold status a/b -o json": "", "tisnap COMMAND --help": "", "tisnap completion bash": "", "tisnap backup --name=x": "",
		"tisnap hold start": "hold start", "tisnap undo": "undo", "tisnap list --details": "--details", "tisnap gc -x": "-x",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, want, unknown(line))
		})
	}
}

// commandLines are the command lines of tisnap in a Markdown text: in inline code, at the beginning of a line of
// a block, and as the args of a container. What follows a '#', a pipe or a redirection is cut off.
func commandLines(text string) []string {
	text = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, "")
	var out []string
	add := func(line string) {
		line = regexp.MustCompile(`\s+[#|>2].*$`).ReplaceAllString(line, "")
		out = append(out, strings.TrimPrefix(line, "kubectl "))
	}
	block := false
	inline := regexp.MustCompile("`((?:kubectl )?tisnap [^`]+)`")
	start := regexp.MustCompile(`^(?:\$ )?((?:kubectl )?tisnap .+)$`)
	args := regexp.MustCompile(`^(?:- )?args: \[(.+)\]`)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			block = !block
		case !block:
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				add(m[1])
			}
		case start.MatchString(line):
			add(start.FindStringSubmatch(line)[1])
		case args.MatchString(line):
			add("tisnap " + strings.NewReplacer(",", "", `"`, "").Replace(args.FindStringSubmatch(line)[1]))
		}
	}
	return out
}

// unknown is the first command or flag of a command line that tisnap does not have, or "".
func unknown(line string) string {
	words := strings.Fields(line)[1:]
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	cmd, rest, err := root.Find(words)
	if err != nil || cmd.HasSubCommands() && cmd.Use == cmd.Name() && len(rest) > 0 && isCommand(rest[0]) {
		return strings.Join(words, " ")
	}
	cmd.InitDefaultHelpFlag()
	for _, word := range rest {
		flag, _, _ := strings.Cut(word, "=")
		if strings.HasPrefix(flag, "-") && !knows(cmd, strings.TrimRight(flag, "`.,;:)")) {
			return flag
		}
	}
	return ""
}

// isCommand says whether a word is meant as a command, and not as a placeholder or a flag.
func isCommand(word string) bool { return regexp.MustCompile(`^[a-z]+$`).MatchString(word) }

func knows(cmd *cobra.Command, flag string) bool {
	if long, ok := strings.CutPrefix(flag, "--"); ok {
		return cmd.Flag(long) != nil
	}
	short := strings.TrimPrefix(flag, "-")
	return len(short) == 1 && (cmd.Flags().ShorthandLookup(short) != nil || cmd.InheritedFlags().ShorthandLookup(short) != nil)
}

// hasFlag says whether any command has the flag.
func hasFlag(name string) bool {
	root := (&app{}).root()
	root.InitDefaultVersionFlag()
	if root.Flags().Lookup(name) != nil || root.PersistentFlags().Lookup(name) != nil || name == "help" {
		return true
	}
	for _, cmd := range root.Commands() {
		if cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
			return true
		}
	}
	return false
}

// Every kind of document is documented.
func TestDocs_KindsOfResults(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	kinds := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`new(?:Header|GCDoc)\("([A-Za-z]+)"`).FindAllStringSubmatch(string(text), -1) {
			kinds++
			assert.Contains(t, userPages(t)["docs/scripting.md"], "`"+m[1]+"`")
		}
	}
	assert.Greater(t, kinds, 20)
}
