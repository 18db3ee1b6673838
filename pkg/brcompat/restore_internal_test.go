package brcompat

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
)

// recordedDocument is the backup of the recorded clustermeta.
func recordedDocument(t *testing.T) *document {
	t.Helper()
	doc, err := os.ReadFile("../manifest/testdata/backupmeta.recorded.json")
	require.NoError(t, err)
	m, err := manifest.FromBackupMeta("br-1", doc)
	require.NoError(t, err)
	d, err := manifest.ParseBR(doc)
	require.NoError(t, err)
	return &document{BRMeta: d, manifest: m}
}

// goldenText compares with a golden file, which -update writes: the flag is of another test of this package.
func goldenText(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// The restoremeta is the recorded document with the new volumes and their zone, and nothing else changed.
func TestWriteRestored_RecordedDocument_IsGolden(t *testing.T) {
	t.Parallel()
	d := recordedDocument(t)
	var volumes []restore.Volume
	for _, s := range d.manifest.Snapshots {
		volumes = append(volumes, restore.Volume{Snapshot: s.ID, ID: cluster.VolumeID("vol-new-" + s.Store.String()), Zone: "us-west-2b"})
	}
	file := filepath.Join(t.TempDir(), "csb_restore.json")
	require.NoError(t, os.WriteFile(file, []byte("of a run before"), 0o600))
	require.NoError(t, d.writeRestored(file, volumes))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	goldenText(t, "restoremeta.json", string(got))
	before, err := os.ReadFile("../manifest/testdata/backupmeta.recorded.json")
	require.NoError(t, err)
	back := regexp.MustCompile(`vol-new-\d+`).ReplaceAllString(string(got), "")
	require.Equal(t, string(before), strings.ReplaceAll(back, "us-west-2b", "us-west-2a"), "all else is kept, byte for byte")

	volumes[0].Snapshot = "snap-other"
	require.Equal(t, failure.Corrupt, failure.KindOf(recordedDocument(t).writeRestored(file, volumes)))
}

// A backup of PingCAP's br has no type where the Operator wrote none.
func TestWithRoles_NoType_IsThatOfTheFolder(t *testing.T) {
	t.Parallel()
	d := recordedDocument(t)
	for _, s := range d.TiKV.Stores {
		s.Volumes[0].Role = ""
	}
	m, err := withRoles(d.BRMeta, "br-1")
	require.NoError(t, err)
	for _, s := range m.Snapshots {
		require.Equal(t, cluster.RoleData, s.Role)
	}
}

// half runs one half of a restore that ends as the test has it, and returns the log and the progress file.
func half(t *testing.T, result *restore.Result, err error) (log, progress string, ended error) {
	t.Helper()
	var out bytes.Buffer
	common := Common{LogLevel: "info", LogFormat: "text"}
	terminal, openErr := newLogger(&common, zapcore.AddSync(&out))
	require.NoError(t, openErr)
	a := &app{log: &logger{Logger: terminal, echo: terminal, ends: terminal}}
	file := filepath.Join(t.TempDir(), "progress.txt")
	r := &restoreRun{document: recordedDocument(t)}
	ended = a.carryOut(t.Context(), r, file, map[string]float64{"create-volumes": 1, "await-volumes": 3},
		func(_ context.Context, deps restore.Deps, _ restore.Options) (*restore.Result, error) {
			deps.Sink.Emit(phase.Event{Type: phase.StepStarted, Phase: "restore volumes", Step: "create-volumes"})
			deps.Sink.Emit(phase.Event{Type: phase.Progress, Step: "create-volumes", Done: 1, Total: 2})
			deps.Sink.Emit(phase.Event{Type: phase.StepFinished, Phase: "restore volumes", Step: "create-volumes"})
			deps.Sink.Emit(phase.Event{Type: phase.Note, Phase: "restore volumes", Step: "await-volumes", Message: "a note"})
			deps.Sink.Emit(phase.Event{Type: phase.Warning, Phase: "restore volumes", Step: "await-volumes", Message: "a warning"})
			return result, err
		})
	text, readErr := os.ReadFile(file)
	require.NoError(t, readErr)
	moment := regexp.MustCompile(`(?m)^\[[^]]+\] (\[\w+\]) \[[^]]+\]`)
	return moment.ReplaceAllString(out.String(), "[TIME] $1 [FILE]"), string(text), ended
}

func TestCarryOut_Done_PrintsTheLineThatTheOperatorReads(t *testing.T) {
	t.Parallel()
	log, progress, err := half(t, &restore.Result{Restored: true}, nil)
	require.NoError(t, err)
	require.Equal(t, "100.00", progress)
	goldenText(t, "restore-log.txt", log)
}

func TestCarryOut_NotDone_PrintsNoSuccess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result   restore.Result
		err      error
		progress string
		done     bool
	}{
		"failed":                      {restore.Result{}, errors.New("no"), "25.00", false},
		"partial, and not restored":   {restore.Result{}, failure.New(failure.Partial, "", "", "no"), "25.00", false},
		"restored, something is left": {restore.Result{Restored: true}, failure.New(failure.Partial, "", "", "a rule"), "100.00", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, progress, err := half(t, &c.result, c.err)
			require.Equal(t, c.done, err == nil)
			require.Equal(t, c.progress, progress)
			require.Equal(t, c.done, strings.Contains(log, "EBS restore success"))
		})
	}
}

func TestTarget_PDAddresses_NameTheCluster(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"dst2-pd.tidb:2379": "tidb/dst2", "http://dst2-pd.tidb:2379": "tidb/dst2", "dst2-pd-0.dst2-pd-peer.tidb.svc:2379": "tidb/dst2",
		"my-pd-pd.ns.svc.cluster.local:2379": "ns/my-pd", "127.0.0.1:2379": "pd/127-0-0-1-2379", "pd.example:2379": "pd/pd-example-2379",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, (&Common{PD: []string{address}}).target().String())
		})
	}
}

// As of every flag, the last one counts: two lists are not one.
func TestAddresses_TheLastListWins(t *testing.T) {
	t.Parallel()
	var c Common
	flags := pflag.NewFlagSet("br", pflag.ContinueOnError)
	c.define(flags)
	require.NoError(t, flags.Parse([]string{"--pd=a:1,b:2", "-u", " c:3, d:4"}))
	require.Equal(t, []string{"c:3", "d:4"}, c.PD)
}

func TestRestoreFlags_TypeThatBRDoesNotTake_IsUsage(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]failure.Kind{
		"gp2": failure.Usage, "st1": failure.Usage, "": failure.Usage, "gp3": failure.Unknown, "io1": failure.Unknown, "io2": failure.Unknown,
	} {
		require.Equal(t, want, failure.KindOf((&restoreFlags{VolumeType: kind}).validate()), kind)
	}
}
