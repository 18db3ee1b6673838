package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/doctor"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/lockset"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/tests/docs"
)

// userPages are the Markdown pages that a user reads, by their path in the module.
func userPages(t *testing.T) map[string]string {
	t.Helper()
	out, err := docs.Pages("../..")
	require.NoError(t, err)
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
			assert.Contains(t, text, "`tisnap "+cmd.Name(), "docs/commands.md describes it")
		}
	}
}

// Every command line of tisnap in the documents, and every flag that they name alone, exists.
func TestDocs_CommandsAndFlagsExist(t *testing.T) { //nolint:tparallel // the cases count together
	t.Parallel()
	found := 0
	for name, text := range userPages(t) {
		t.Run(name, func(t *testing.T) {
			for _, line := range docs.CommandLines(text, "tisnap") {
				found++
				assert.Empty(t, docs.Unknown((&app{}).root(), line), "%q", line)
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
		runsDoc{}, runDoc{}, clustersDoc{}, abortedDoc{}, startedDoc{}, deletionsDoc{}, pinDoc{}, lockSetDoc{}, lockset.Item{}, ec2Facts{}, doctorDoc{}, doctor.Check{},
		archiveInitDoc{}, archiveListDoc{}, archiveDoc{}, archiveItem{}, archiveSummary{}, archiveVolume{},
		volumeDoc{}, archiveVerifyDoc{}, archiveRestoreDoc{}, restoredImage{},
		archiveSnapshotsDoc{}, restoredSnapshot{}, drillDoc{}, drillPlanDoc{}, drillListDoc{}, drillItem{}, drillCleanDoc{},
		cleanedItem{}, report.Drilled{},
	} {
		of := reflect.TypeOf(document)
		t.Run(of.Name(), func(t *testing.T) {
			t.Parallel()
			for _, field := range reflect.VisibleFields(of) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				if name != "" && name != "-" {
					assert.Regexp(t, "`"+name+"(\\[\\])?`", page, "docs/scripting.md lists it")
				}
			}
		})
	}
}

// Every environment variable of tisnap that the documents name sets a flag, or is read by what the module is tested with.
func TestDocs_EnvironmentExists(t *testing.T) {
	t.Parallel()
	known := append(envNames((&app{}).root()), signKeyVariable, sqlPasswordVariable)
	allowed := map[string]string{
		"TISNAP_FLAG_NAME": "stands for any of them",
		"TISNAP_DRYRUN":    "docs/scripting.md shows it as a misspelling that is refused",
	}
	found := 0
	for name, text := range userPages(t) {
		for _, variable := range regexp.MustCompile(`TISNAP_[A-Z_]*[A-Z]`).FindAllString(text, -1) {
			found++
			if allowed[variable] == "" && !strings.HasPrefix(variable, testPrefix) {
				assert.Contains(t, known, variable, "%s names it", name)
			}
		}
	}
	assert.Greater(t, found, 8, "the documents name variables")
}

// hasFlag reports whether any command has the flag.
func hasFlag(name string) bool {
	root := (&app{}).root()
	root.InitDefaultVersionFlag()
	if root.Flags().Lookup(name) != nil || root.PersistentFlags().Lookup(name) != nil || name == "help" {
		return true
	}
	return below(root, func(cmd *cobra.Command) bool {
		return cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil
	})
}

// below reports whether any command below one is as asked.
func below(cmd *cobra.Command, is func(*cobra.Command) bool) bool {
	return slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return is(c) || below(c, is) })
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
