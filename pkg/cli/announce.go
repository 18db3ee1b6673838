package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/metrics"
	"github.com/tisnap/tisnap/pkg/notify"
	"github.com/tisnap/tisnap/pkg/outbound"
	"github.com/tisnap/tisnap/pkg/report"
)

// announceFlags name who is notified of a run's outcome.
type announceFlags struct {
	notify, push, file string
}

// ending is a result that can be announced.
type ending interface {
	// times is the run's report; nil for a delete and for gc.
	times() *report.Report
	// garbage is what a delete or gc found and did; nil for other runs.
	garbage() *gc.Report
}

func (d *backupDoc) times() *report.Report         { return d.Report }
func (d *backupDoc) garbage() *gc.Report           { return nil }
func (d *restoreDoc) times() *report.Report        { return d.Report }
func (d *restoreDoc) garbage() *gc.Report          { return nil }
func (d *resolveDoc) times() *report.Report        { return d.Report }
func (d *resolveDoc) garbage() *gc.Report          { return nil }
func (d *createdArchiveDoc) times() *report.Report { return d.Report }
func (d *createdArchiveDoc) garbage() *gc.Report   { return nil }
func (d *copyDoc) times() *report.Report           { return d.Report }
func (d *copyDoc) garbage() *gc.Report             { return nil }
func (d *gcDoc) times() *report.Report             { return nil }
func (d *gcDoc) garbage() *gc.Report               { return d.Report }

func (d *deletionsDoc) times() *report.Report { return nil }
func (d *deletionsDoc) garbage() *gc.Report   { return d.Items() }

// notifyFlag and metricsFlags are the same for every command that has them.
func (a *app) notifyFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.announce.notify, "notify", "",
		"URL that gets a CloudEvents 1.0 summary as JSON at the end; it never changes the exit code")
}

func (a *app) metricsFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.announce.push, "metrics-push", "",
		"URL of a Prometheus Pushgateway that gets metrics at the end; it never changes the exit code")
	cmd.Flags().StringVar(&a.announce.file, "metrics-file", "",
		"file for node_exporter's textfile collector (NAME.prom) that gets metrics at the end")
}

func (f *announceFlags) validate() error {
	for flag, value := range map[string]string{"notify": f.notify, "metrics-push": f.push} {
		if value == "" {
			continue
		}
		if err := outbound.CheckURL(value); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
	}
	if f.file != "" && !strings.HasSuffix(f.file, ".prom") {
		return fmt.Errorf("--metrics-file %q: want a name that ends in .prom, which node_exporter reads", f.file)
	}
	return nil
}

// ended is this invocation's run, once there is one to announce.
type ended struct {
	cmd *cobra.Command
	end ending // nil if the run produced no result
}

// toAnnounce notes the run, when it begins and again when it has a result; doc is nil before.
func (a *app) toAnnounce(cmd *cobra.Command, doc document) {
	end, _ := doc.(ending) // a nil document is none
	a.ended = &ended{cmd: cmd, end: end}
}

// announceEnd sends the outcome to the receivers that the flags name. A failed delivery is a warning and never changes
// the outcome. Package outbound's limits bound it, even after a signal.
func (a *app) announceEnd(ctx context.Context, err error, code ExitCode) {
	f := a.announce
	if f == (announceFlags{}) || a.ended == nil {
		return
	}
	cmd, end := a.ended.cmd, a.ended.end
	ctx = context.WithoutCancel(ctx)
	if f.notify != "" {
		a.warn(notify.Send(ctx, f.notify, summaryOf(cmd, end, err, code), a.streams.limits))
	}
	if f.push == "" && f.file == "" {
		return
	}
	set, instance := metricsOf(cmd, end, err, code)
	if f.push != "" {
		a.warn(metrics.Push(ctx, f.push, instance, set))
	}
	if f.file != "" {
		a.warn(metrics.WriteFile(f.file, set))
	}
}

// operationOf is what the command's run is called: a subcommand such as create is not enough by itself.
func operationOf(cmd *cobra.Command) string {
	if up := cmd.Parent(); up != nil && up.Name() == string(report.Archive) {
		return up.Name()
	}
	return cmd.Name()
}

// about is a minimal report, built from the command line, for a run that produced none.
func about(cmd *cobra.Command, err error) *report.Report {
	r := &report.Report{
		Header: report.Header{
			Operation: report.Operation(operationOf(cmd)), Outcome: outcome(err), Finished: time.Now().UTC(),
		},
	}
	arg, namespace := cmd.Flags().Arg(0), cmd.Flag("namespace").Value.String()
	if latest := cmd.Flag(latestIs); latest != nil && latest.Value.String() != "" {
		arg = latest.Value.String()
	}
	archive := r.Operation == report.Archive || r.Operation == report.Copy || r.Operation == report.Drill
	if archive || cmd.Name() == "restore" || cmd.Name() == "delete" && cmd.Flags().NArg() == 1 {
		r.Backup = cluster.BackupID(arg)
	}
	if cmd.Name() == "restore" {
		arg = cmd.Flag("to").Value.String()
	}
	if name, parseErr := cluster.ParseName(arg, namespace); parseErr == nil && cmd.Name() != "delete" && !archive {
		r.Cluster = name
	}
	return r
}

func summaryOf(cmd *cobra.Command, end ending, err error, code ExitCode) notify.Summary {
	var s notify.Summary
	switch {
	case end != nil && end.times() != nil:
		s.FromReport(end.times())
	default:
		s.FromReport(about(cmd, err))
	}
	if s.Cluster == "/" {
		s.Cluster = ""
	}
	if end != nil && end.garbage() != nil {
		s.Deleted, s.Left = end.garbage().Count(gc.ActionDeleted), end.garbage().Count(gc.ActionLeft)
	}
	s.Failed(err, int(code))
	if err != nil {
		s.Kind = kindName(code, failure.KindOf(err))
	}
	return s
}

// metricsOf returns the metrics and the gateway's instance label.
func metricsOf(cmd *cobra.Command, end ending, err error, code ExitCode) (set *metrics.Set, instance string) {
	set = metrics.NewSet()
	if cmd.Name() == "gc" {
		var found *gc.Report
		if end != nil {
			found = end.garbage()
		}
		set.AddGarbage(found, code == ExitDone, time.Now())
		return set, cmd.Name()
	}
	r := about(cmd, err)
	if end != nil && end.times() != nil {
		r = end.times()
		set.AddReport(r)
	} else {
		set.AddOutcome(r)
	}
	set.AddExit(r, int(code), failure.KindOf(err) == failure.Held)
	return set, r.Cluster.String() + " " + operationOf(cmd)
}

// warn prints a failure that does not affect the exit code.
func (a *app) warn(err error) {
	if err == nil {
		return
	}
	message := failure.Line(err.Error())
	if !a.machine() {
		fmt.Fprintln(a.streams.Err, "warning: "+message)
		return
	}
	line, _ := json.Marshal(struct { // strings cannot fail
		Type    string `json:"type"`
		Message string `json:"message"`
	}{"warning", message})
	fmt.Fprintln(a.streams.Err, string(line))
}
