package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// TestFormats_NoFieldIsRenamed makes a backup and a restore and looks at every JSON document that they write. The
// golden files hold each field once, with its kind: "digits" is a number as a string. Other programs read these
// fields, so one that is missing here was renamed or changed its kind; new ones are for -update.
func TestFormats_NoFieldIsRenamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	const storage = "s3://" + testbed.Bucket + "/formats"

	earlier := p.run(t, "backup", prod.String(), "--name", "earlier", "--storage", storage) // by which the next one knows what to expect
	require.Equal(t, cli.ExitDone, earlier.code, earlier.stderr)
	backup := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", storage, "-o", "json")
	require.Equal(t, cli.ExitDone, backup.code, backup.stderr)
	restore := p.run(t, "restore", string(firstBackup), "--to", "tidb/copy", "--storage", storage, "-o", "json",
		"--volume-iops", "4000", "--volume-throughput", "400", "--after-restore-iops", "3000")
	require.Equal(t, cli.ExitDone, restore.code, restore.stderr)
	describe := p.run(t, "describe", string(firstBackup), "--storage", storage, "-o", "json")
	require.Equal(t, cli.ExitDone, describe.code, describe.stderr)

	outputs := fields{}
	outputs.add(t, "backup", []byte(backup.stdout))
	outputs.add(t, "restore", []byte(restore.stdout))
	outputs.add(t, "describe", []byte(describe.stdout))
	outputs.golden(t, "formats-output")

	stored := fields{}
	store := p.storage(t, storage)
	objects, err := store.List(t.Context(), "")
	require.NoError(t, err)
	for _, o := range objects {
		if body := get(t, store, o.Key); json.Valid(body) {
			stored.addObject(t, o.Key, body)
		}
	}
	stored.golden(t, "formats-stored")
}

// addObject takes a journal record by its type, step, name and data, a report by what it is of, and any other object by
// its file's name.
func (f fields) addObject(t *testing.T, key string, body []byte) {
	t.Helper()
	if strings.HasPrefix(key, manifest.ReportsPrefix) {
		var r report.Report
		require.NoError(t, json.Unmarshal(body, &r))
		f.add(t, map[report.Operation]string{report.Backup: "report.json", report.Restore: "N.json"}[r.Operation], body)
		return
	}
	if !strings.Contains(key, "/journal/") {
		f.add(t, variables().ReplaceAllString(filepath.Base(key), "N"), body)
		return
	}
	var record struct {
		Type, Step, Name string
		Data             json.RawMessage
	}
	require.NoError(t, json.Unmarshal(body, &record))
	name, _, _ := strings.Cut(record.Name, " ")
	if name == journal.ResultServes {
		record.Step = "*" // of the step that saw it first: TiDB's, or that of the leaders
	}
	at := strings.TrimSpace(strings.Join([]string{"record", record.Type, record.Step, variables().ReplaceAllString(name, "N")}, " "))
	f[at] = true
	if record.Data != nil {
		f.add(t, at, record.Data)
	}
}

// variables are parts of names that differ between runs, stores and volumes.
func variables() *regexp.Regexp {
	return regexp.MustCompile(`\b(snap|vol|i|pvc)-[0-9a-f-]+|\d{8}t\d{6}-[0-9a-f]{8}|\d+`)
}

// fields are paths into documents, with the kind of what is there.
type fields map[string]bool

func (f fields) add(t *testing.T, at string, body []byte) {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(body, &value), at)
	f.walk(at+":", value)
}

func (f fields) walk(at string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			switch key {
			case "tidbCluster", "pvcs", "pvs", "kubernetes":
				f[at+"."+key] = true // not ours, kept as it is
			default:
				f.walk(at+"."+variables().ReplaceAllString(key, "N"), inner)
			}
		}
	case []any:
		for _, inner := range v {
			f.walk(at+"[]", inner)
		}
	case string:
		kind := "string"
		if regexp.MustCompile(`^\d+$`).MatchString(v) {
			kind = "digits"
		}
		f[at+" "+kind] = true
	default:
		f[fmt.Sprintf("%s %T", at, v)] = true
	}
}

// golden requires every field of the golden file.
func (f fields) golden(t *testing.T, name string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(slices.Sorted(maps.Keys(f)), "\n")+"\n"), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(want)) {
		assert.True(t, f[strings.TrimSpace(line)], "gone or changed: %s", line)
	}
}
