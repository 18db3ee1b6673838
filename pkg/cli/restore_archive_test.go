package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// choosing is a command that restores an archive of us-west-2 to tidb/copy, which may have an unfinished run.
type choosing struct {
	cmd     *cobra.Command
	flags   *restoreFlags
	global  *globalFlags
	deps    *restore.Deps
	request journal.About
}

// newChoosing is the command with the flags and variables given, where nothing of AWS is configured besides.
func newChoosing(t *testing.T, env map[string]string, args ...string) *choosing {
	t.Helper()
	archive := &fromarchive.Source{Repository: newArchiveLab(t).open(t), ID: "one"}
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	for name, value := range env {
		t.Setenv(name, value)
	}
	a := &app{}
	x := &choosing{cmd: &cobra.Command{}, flags: &restoreFlags{}, global: &a.global}
	x.flags.register(a, x.cmd)
	x.cmd.Flags().StringVar(&a.global.profile, "profile", "", "")
	x.cmd.Flags().StringVar(&a.global.region, "region", "", "")
	x.cmd.Flags().StringVar(&a.global.ebsRole, "ebs-role-arn", "", "")
	require.NoError(t, x.cmd.ParseFlags(args))
	require.NoError(t, fromEnv(x.cmd))
	x.deps = &restore.Deps{Store: objstoretest.NewMemory(nil), Archive: archive}
	x.request = journal.About{
		Operation: journal.Restore, Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, KubernetesUID: "u",
	}
	return x
}

// way chooses it, for an archive of the region.
func (x *choosing) way(t *testing.T, region string) (chosen way, why string, err error) {
	t.Helper()
	c := &connections{global: x.global, log: zap.NewNop()}
	defer c.close()
	e, why, err := chooseWay(t.Context(), x.cmd, c, x.flags, x.deps, x.request, region)
	switch {
	case err != nil:
		return "", why, err
	case e != nil:
		return waySnapshots, why, nil
	}
	return wayVolumes, why, nil
}

// died adds a run that died, of the same restore except for what is changed.
func (x *choosing) died(t *testing.T, id cluster.RunID, chosen way, change func(*journal.About)) {
	t.Helper()
	about := x.request
	about.Request = x.deps.Archive.Request()
	if chosen == wayVolumes {
		about.Request[journal.ArchiveVia] = string(wayVolumes)
	}
	if change != nil {
		change(&about)
	}
	data, err := json.Marshal(about)
	require.NoError(t, err)
	require.NoError(t, journal.NewStoreJournal(x.deps.Store, manifest.JournalPrefix(id)).
		Append(t.Context(), phase.Record{Seq: 1, Run: id, Time: time.Now(), Type: phase.RecordRun, Data: data}))
	lock, err := runlock.Acquire(t.Context(), x.deps.Store, about.Cluster, runlock.Owner{Run: id}, time.Minute)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
}

var credentials = map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"}

func with(env map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	for k, v := range env {
		out[k] = v
	}
	return out
}

// By default snapshots are made where AWS is, and pods fill volumes elsewhere, which the user learns.
func TestChooseWay_ByWhereTheCommandRuns(t *testing.T) {
	here, away := with(credentials, "AWS_REGION", "us-west-2"), with(credentials, "AWS_REGION", "eu-west-1")
	for name, row := range map[string]struct {
		env    map[string]string
		args   string
		region string
		want   way
		why    string
	}{
		"the archive's region":      {here, "", "us-west-2", waySnapshots, ""},
		"another region":            {away, "", "us-west-2", wayVolumes, "the archive is of us-west-2, and this is eu-west-1"},
		"another one's zones":       {credentials, "--region eu-west-1 --target-az eu-west-1a", "us-west-2", wayVolumes, "eu-west-1"},
		"an archive without one":    {away, "", "", waySnapshots, ""},
		"asked for snapshots there": {away, "--archive-via snapshots", "us-west-2", waySnapshots, ""},
		"asked for volumes here":    {here, "--archive-via volumes", "us-west-2", wayVolumes, ""},
		"options of EBS there":      {away, "--volume-type io2", "us-west-2", waySnapshots, ""},
		"their variable there":      {with(away, "TISNAP_KMS_KEY", "alias/k"), "", "us-west-2", waySnapshots, ""},
		"the pods' variable here":   {with(here, "TISNAP_IMAGE", "tisnap:v1"), "", "us-west-2", waySnapshots, ""},
		"no AWS":                    {nil, "", "us-west-2", wayVolumes, "there is no AWS here"},
		"no region":                 {credentials, "", "us-west-2", wayVolumes, "no region configured"},
	} {
		t.Run(name, func(t *testing.T) {
			got, why, err := newChoosing(t, row.env, strings.Fields(row.args)...).way(t, row.region)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
			require.Contains(t, why, row.why)
			require.Equal(t, row.why == "", why == "")
		})
	}
}

// Whoever names an account or a region means it: that it cannot be used ends the command.
func TestChooseWay_AWSCannotBeUsed_IsNotNoAWS(t *testing.T) {
	for name, row := range map[string]struct {
		env  map[string]string
		args string
		kind failure.Kind
	}{
		"a profile that is not there": {nil, "--profile absent", failure.Usage},
		"its variable":                {map[string]string{"AWS_PROFILE": "absent"}, "", failure.Usage},
		"a region, no credentials":    {nil, "--region us-west-2", failure.Denied},
		"its own variable":            {map[string]string{"TISNAP_REGION": "us-west-2"}, "", failure.Denied},
		"the SDK's variable":          {map[string]string{"AWS_DEFAULT_REGION": "us-west-2"}, "", failure.Denied},
		"a role":                      {nil, "--ebs-role-arn arn:aws:iam::123456789012:role/r", failure.Usage},
		"a token that is not there": {map[string]string{
			"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r", "AWS_WEB_IDENTITY_TOKEN_FILE": "/absent",
			"AWS_CONFIG_FILE": "",
		}, "", failure.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			if config, is := row.env["AWS_CONFIG_FILE"]; is && config == "" { // a region that no flag or variable names
				row.env["AWS_CONFIG_FILE"] = inFile(t, "[default]\nregion=us-west-2\n")
			}
			_, _, err := newChoosing(t, row.env, strings.Fields(row.args)...).way(t, "us-west-2")
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
		})
	}
}

// A command that resumes a run makes volumes as the run did, wherever it runs by now.
func TestChooseWay_UnfinishedRun_ItsWay(t *testing.T) {
	here, away := with(credentials, "AWS_REGION", "us-west-2"), with(credentials, "AWS_REGION", "eu-west-1")
	for name, row := range map[string]struct {
		env    map[string]string
		args   string
		began  way
		change func(*journal.About)
		want   way
	}{
		"filled volumes":         {here, "", wayVolumes, nil, wayVolumes},
		"made snapshots":         {away, "", waySnapshots, nil, waySnapshots},
		"named":                  {here, "--run-id dead", wayVolumes, nil, wayVolumes},
		"another is named":       {here, "--run-id other", wayVolumes, nil, waySnapshots},
		"asked for the other":    {here, "--archive-via snapshots", wayVolumes, nil, waySnapshots},
		"of another archive":     {here, "", wayVolumes, func(a *journal.About) { a.Request[fromArchive] = "two" }, waySnapshots},
		"of another repository":  {here, "", wayVolumes, func(a *journal.About) { a.Request["repo"] = "r" }, waySnapshots},
		"in another Kubernetes":  {here, "", wayVolumes, func(a *journal.About) { a.KubernetesUID = "v" }, waySnapshots},
		"of no archive":          {away, "", waySnapshots, func(a *journal.About) { a.Request = nil }, wayVolumes},
		"in an unknown one":      {here, "", wayVolumes, func(a *journal.About) { a.KubernetesUID = "" }, waySnapshots},
		"an unknown one, chosen": {here, "--run-id dead", wayVolumes, func(a *journal.About) { a.KubernetesUID = "" }, wayVolumes},
	} {
		t.Run(name, func(t *testing.T) {
			x := newChoosing(t, row.env, strings.Fields(row.args)...)
			synctest.Test(t, func(t *testing.T) { // who reads a run that died early looks at it again
				x.died(t, "dead", row.began, row.change)
				got, why, err := x.way(t, "us-west-2")
				require.NoError(t, err)
				require.Equal(t, row.want, got)
				if row.want == row.began && got == wayVolumes {
					require.Contains(t, why, "run dead")
				}
			})
		})
	}
}

// Variables that are for restores of archives do not keep other restores from running.
func TestWayFlags_VariablesOfArchives_OtherRestores(t *testing.T) {
	x := newChoosing(t, map[string]string{
		"TISNAP_ARCHIVE_VIA": "volumes", "TISNAP_STORAGE_CLASS": "c", "TISNAP_WORKERS": "0",
	})
	require.NoError(t, x.flags.via.validate(x.cmd, false))
	require.ErrorContains(t, x.flags.via.validate(x.cmd, true), "--image is missing")
	x = newChoosing(t, nil, "--archive-via", "auto")
	require.ErrorContains(t, x.flags.via.validate(x.cmd, false), "for --from-archive")
}
