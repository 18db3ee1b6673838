package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// holdDoc is the output of `tisnap hold status`.
type holdDoc struct {
	header
	Cluster cluster.Name `json:"cluster"`
	// Lock is the live run that holds the cluster's lock; null if there is none, or without --storage.
	Lock *lockDoc `json:"lock"`
	*hold.Status
}

type lockDoc struct {
	Run     cluster.RunID `json:"run"`
	Host    string        `json:"host"`
	PID     int           `json:"pid"`
	Command string        `json:"command"`
	Until   time.Time     `json:"until"`
}

func (a *app) holdCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hold",
		Short: "Inspect the hold on a running cluster",
		Args:  knownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "status CLUSTER",
		Short: "Show what is paused, by whom and until when",
		Long: `Show what is paused in a cluster's PD, by whom and until when.

PD does not record who paused a scheduler or overrode a limit, but the journals of runs do:
with --storage they are read, and the live run that holds the cluster's lock is shown; a
lock that is not being renewed is watched for a minute. Leases on the stores are not shown:
reading one would take it over. They last as long as their run's GC safe point. The stores
are asked whether early apply is off. Nothing is changed.`,
		Example: `  tisnap hold status tidb/prod
  tisnap hold status tidb/prod --storage s3://backups/prod
  tisnap hold status prod -n tidb -o json`,
		Args:              exactly("CLUSTER"),
		ValidArgsFunction: a.completeClusters,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.holdStatus(cmd.Context(), args[0])
		},
	})
	return cmd
}

func (a *app) holdStatus(ctx context.Context, arg string) error {
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return err
	}
	defer c.close()
	name, p, err := c.running(ctx, arg)
	if err != nil {
		return err
	}
	doc := &holdDoc{header: newHeader("HoldStatus"), Cluster: name}
	var store objstore.Store
	if a.global.storage != "" {
		if store, err = c.store(ctx); err != nil {
			return err
		}
		if doc.Lock, err = lockOf(ctx, store, name, a.watching); err != nil {
			return err
		}
	}
	if doc.Status, err = backup.Status(ctx, store, p, c.tikv(), name); doc.Status == nil {
		return err
	}
	return errors.Join(a.print(doc), err)
}

// lockOf returns the lock if its run is alive, else nil. Like a run that wants the lock, it watches one that is not
// being renewed for about a minute, and calls watching first.
func lockOf(
	ctx context.Context, store objstore.Store, name cluster.Name, watching func(*runlock.Record),
) (*lockDoc, error) {
	found, err := runlock.Observe(ctx, store, name, watching)
	if err != nil || !found.Held(time.Now()) {
		return nil, err
	}
	o := found.Record.Owner
	return &lockDoc{Run: o.Run, Host: o.Host, PID: o.PID, Command: o.Command, Until: found.Record.FreeAt().UTC()}, nil
}

func (d *holdDoc) table(w io.Writer, v view) error {
	if d.Lock != nil {
		if _, err := fmt.Fprintf(w, "run %s (%s, pid %d on host %s) has the lock until %s\n",
			oneLine(d.Lock.Run), oneLine(d.Lock.Command), d.Lock.PID, oneLine(d.Lock.Host),
			v.text(d.Lock.Until)); err != nil {
			return err
		}
	}
	if !d.Held() {
		if _, err := fmt.Fprintf(w, "nothing is paused in the PD of cluster %s\n", d.Cluster); err != nil ||
			len(d.EarlyApply) == 0 {
			return err
		}
	}
	return statusTable(d.Status).write(w, v)
}

// statusTable has a row for each thing that is paused.
func statusTable(s *hold.Status) *table {
	t := newTable("HELD", "NAME", "VALUE", "BY", "UNTIL")
	for _, s := range s.Schedulers {
		t.row("scheduler", s.Name, "paused", byRun(s.By, "not known"), until(s.Until))
	}
	for _, l := range s.Limits {
		by := "someone else"
		if l.Ours {
			by = "not known"
		}
		t.row("limit", l.Item, l.Value, byRun(l.By, by), until(l.Until))
	}
	for _, p := range s.SafePoints {
		t.row("GC safe point", p.TS, p.TS.Time().UTC().Format(time.RFC3339), byHolder(p.Run), until(p.Until))
	}
	for _, e := range s.EarlyApply {
		if e.By == "" {
			t.row("early apply", "store "+e.Store.String(), "0", "configuration, or another tool",
				"until set again, or the store restarts")
			continue
		}
		was := "0, was " + strconv.FormatUint(e.Limit, 10)
		if !e.Since.IsZero() {
			was += " until " + e.Since.UTC().Format(time.RFC3339)
		}
		t.row("early apply", "store "+e.Store.String(), was, byHolder(e.By), "until restored, or the store restarts")
	}
	return t
}

// byHolder returns the run, and its host if its id includes one.
func byHolder(signed cluster.RunID) string {
	run, holder, known := hold.SplitHolder(signed)
	if !known {
		return byRun(signed, "")
	}
	return byRun(run, "") + " in " + holder.String()
}

func byRun(run cluster.RunID, otherwise string) string {
	if run == "" {
		return otherwise
	}
	return "run " + string(run)
}

func until(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	return t.UTC().Format(time.RFC3339)
}
