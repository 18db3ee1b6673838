package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/failure"
)

// archivePruneDoc is the output of `tisnap archive prune`.
type archivePruneDoc struct {
	header
	Repository string `json:"repository"` // its id
	DryRun     bool   `json:"dryRun"`
	*prune.Report
	// MonthUSD is the monthly price of the garbage, whether or not it was deleted.
	MonthUSD *float64 `json:"garbageMonthUSD,omitempty"`
}

type archivePruneFlags struct {
	undo       removal
	minAge     time.Duration
	breakAfter time.Duration
	prices     string
}

func (a *app) archivePruneCommand(repo *repoFlags) *cobra.Command {
	var f archivePruneFlags
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete what no archive refers to",
		Long: `Delete what no archive refers to: what tisnap archive forget and abandoned runs left.

It needs no quiet time: archives can be made, read, verified and forgotten meanwhile, and other
prunes can run. What it finds is condemned, and deleted once all commands that began before have
ended; what has to wait for them is listed, and the next prune continues with it, as it does after
one that failed or was killed. A command that died has a lease still: --break-leases-after
decides when that ends. Its run then cannot commit any more.

Nothing is deleted while an archive or its map cannot be read.`,
		Example: `  tisnap archive prune --dry-run --repo s3://archive/prod --repo-identity ops.key
  tisnap archive prune --yes --repo s3://archive/prod --repo-identity ops.key`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(a.asks()); err != nil {
				return usage(cmd, err)
			}
			return a.archivePrune(cmd.Context(), repo, f)
		},
	}
	fl := cmd.Flags()
	f.undo.addUndo(fl, "print what would be deleted; change nothing")
	fl.DurationVar(&f.minAge, "min-age", time.Hour,
		"leave out what is younger, and so probably of a run under way; it is never needed for safety")
	fl.DurationVar(&f.breakAfter, "break-leases-after", 24*time.Hour,
		"break leases that were not renewed for so long, at least 2h: their runs cannot commit then")
	fl.StringVar(&f.prices, "prices", "", "TOML file with prices (default: built-in us-east-1 prices)")
	a.localFlag(cmd)
	return cmd
}

func (f *archivePruneFlags) validate(asks bool) error {
	switch {
	case f.minAge < 0:
		return fmt.Errorf("--min-age %s: want 0 or more", f.minAge)
	case f.breakAfter < 2*time.Hour: // leases are renewed each hour
		return fmt.Errorf("--break-leases-after %s: want at least 2h", f.breakAfter)
	}
	return f.undo.validateUndo("this deletes what no archive refers to", asks)
}

func (a *app) archivePrune(ctx context.Context, repo *repoFlags, f archivePruneFlags) error {
	prices, err := estimate.ReadPrices(f.prices)
	if err != nil {
		return err
	}
	r, done, err := a.openRepository(ctx, repo)
	if err != nil {
		return err
	}
	defer done()
	run := func(dryRun bool) (*archivePruneDoc, error) {
		report, err := prune.Run(ctx, r, prune.Options{MinAge: f.minAge, BreakAfter: f.breakAfter, DryRun: dryRun})
		doc := &archivePruneDoc{
			header: newHeader("ArchivePrune"), Repository: r.ID().String(), DryRun: dryRun, Report: report,
		}
		if month := prices.Objects.GBMonth; month != nil {
			cost := *month * float64(report.Garbage.Bytes) / (1 << 30)
			doc.MonthUSD = &cost
		}
		return doc, failure.Annotate(err, "prune archives", "")
	}
	if err := a.confirmRemoval(ctx, &f.undo, "delete this?", func() (document, error) {
		return run(true)
	}); err != nil {
		return err
	}
	if !f.undo.dryRun {
		defer a.unfinished("prune", "the next `tisnap archive prune` continues")()
	}
	doc, err := run(f.undo.dryRun)
	return errors.Join(err, a.print(doc))
}

func (d *archivePruneDoc) names() []string { return nil }

func (d *archivePruneDoc) table(w io.Writer, _ view) error {
	amount := func(a prune.Amount) string {
		return fmt.Sprintf("%d packs, %d map segments, %s", a.Packs, a.Segments, iBytes(a.Bytes))
	}
	rows := [][2]string{
		{"archives", fmt.Sprint(d.Archives)}, {"stored", amount(d.Stored)},
		{"garbage", amount(d.Garbage) + ", USD " + usd(d.MonthUSD) + " a month"},
		{"too young", amount(d.Young)}, {"unused in packs that are in use", "about " + iBytes(d.UnusedBytes)},
	}
	if !d.DryRun {
		rows = append(rows, [2]string{"deleted", amount(d.Deleted)})
	}
	for _, wait := range d.Waiting {
		rows = append(rows, [2]string{"waiting", amount(wait.Amount) + ", for " + strings.Join(wait.Leases, ", ")})
	}
	for _, key := range d.Broken {
		rows = append(rows, [2]string{"broken", key})
	}
	for _, row := range rows {
		if _, err := fmt.Fprintf(w, "%-31s  %s\n", row[0], oneLine(row[1])); err != nil {
			return err
		}
	}
	return nil
}
