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
	"github.com/tisnap/tisnap/pkg/archive/repository"
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
	// RewriteUSD is about what the requests of rewriting cost, and FreedMonthUSD the monthly price of what it frees.
	RewriteUSD    *float64 `json:"rewritingUSD,omitempty"`
	FreedMonthUSD *float64 `json:"freedMonthUSD,omitempty"`
}

type archivePruneFlags struct {
	undo       removal
	minAge     time.Duration
	breakAfter time.Duration
	unused     string
	maxUnused  float64
	prices     string
}

func (a *app) archivePruneCommand(repo *repoFlags) *cobra.Command {
	var f archivePruneFlags
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete what no archive refers to",
		Long: `Delete what no archive refers to: what tisnap archive forget and abandoned runs left.

Packs that are mostly unused are rewritten until --max-unused of the packs' bytes is unused: their
blocks that are in use are copied, and each archive is replaced by one that refers to the copies.

It needs no quiet time: archives can be made, read, verified and forgotten meanwhile, and other
prunes can run. What it finds is condemned, and deleted once all commands that began before have
ended; what has to wait for them is listed, and the next prune continues with it, as it does after
one that failed or was killed. A command that died has a lease still: --break-leases-after
decides when that ends. Its run then cannot commit any more.

In a repository with a retention it retains what archives use for longer, and leaves what Object
Lock keeps: a later prune deletes that.

Nothing is deleted while an archive or its map cannot be read.`,
		Example: `  tisnap archive prune --dry-run --repo s3://archive/prod --repo-identity ops.key
  tisnap archive prune --yes --repo s3://archive/prod --repo-identity ops.key`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(a.asks()); err != nil {
				return usage(cmd, err)
			}
			a.limitMemory()
			return a.archivePrune(cmd.Context(), repo, f)
		},
	}
	fl := cmd.Flags()
	f.undo.addUndo(fl, "print what would be deleted; change nothing")
	fl.DurationVar(&f.minAge, "min-age", time.Hour,
		"leave out what is younger, and so probably of a run under way; it is never needed for safety")
	fl.DurationVar(&f.breakAfter, "break-leases-after", 24*time.Hour,
		"break leases that were not renewed for so long, at least 2h: their runs cannot commit then")
	fl.StringVar(&f.unused, "max-unused", "10%",
		"rewrite packs until at most this share of their bytes is unused; 100% rewrites none")
	complete(cmd, "max-unused", "5%", "10%", "100%")
	fl.StringVar(&f.prices, "prices", "", "TOML file with prices (default: built-in us-east-1 prices)")
	a.localFlag(cmd)
	return cmd
}

func (f *archivePruneFlags) validate(asks bool) error {
	var isShare bool
	f.maxUnused, isShare = parseShare(f.unused)
	switch {
	case !isShare:
		return fmt.Errorf("--max-unused %q: want a share such as 10%%", f.unused)
	case f.minAge < 0:
		return fmt.Errorf("--min-age %s: want 0 or more", f.minAge)
	case f.breakAfter < 2*time.Hour: // leases are renewed each hour
		return fmt.Errorf("--break-leases-after %s: want at least 2h", f.breakAfter)
	}
	return f.undo.validateUndo("this deletes what no archive refers to, and rewrites archives", asks)
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
		report, err := prune.Run(ctx, r, prune.Options{
			MinAge: f.minAge, BreakAfter: f.breakAfter, MaxUnused: f.maxUnused, DryRun: dryRun, Owner: "prune",
		})
		doc := &archivePruneDoc{
			header: newHeader("ArchivePrune"), Repository: r.ID().String(), DryRun: dryRun, Report: report,
		}
		doc.price(prices, r.Settings().PackSize)
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
	if !f.undo.dryRun {
		a.recordInStorage(ctx, r) // blocks that were moved are unread
	}
	return errors.Join(err, a.print(doc))
}

// price fills in what is known of the prices.
func (d *archivePruneDoc) price(p *estimate.Prices, packSize int64) {
	if month := p.Objects.GBMonth; month != nil {
		garbage, freed := *month*float64(d.Garbage.Bytes)/(1<<30), *month*float64(d.Rewriting.FreedBytes)/(1<<30)
		d.MonthUSD, d.FreedMonthUSD = &garbage, &freed
	}
	if get, put := p.Requests.Get1000, p.Requests.Put1000; get != nil && put != nil {
		reads := max(d.Rewriting.Packs, d.Rewriting.ReadBytes/repository.MaxRange)
		cost := (*get*float64(reads) + *put*float64(d.Rewriting.WrittenBytes/packSize+1)) / 1000
		if d.Rewriting.Packs == 0 {
			cost = 0
		}
		d.RewriteUSD = &cost
	}
}

func (d *archivePruneDoc) names() []string { return nil }

func (d *archivePruneDoc) table(w io.Writer, v view) error {
	amount := func(a prune.Amount) string {
		return fmt.Sprintf("%d packs, %d map segments, %s", a.Packs, a.Segments, iBytes(a.Bytes))
	}
	rows := [][2]string{
		{"archives", fmt.Sprint(d.Archives)}, {"stored", amount(d.Stored)},
		{"garbage", amount(d.Garbage) + ", USD " + usd(d.MonthUSD) + " a month"},
		{"too young", amount(d.Young)}, {"unused in packs that are in use", "about " + iBytes(d.UnusedBytes)},
		{"rewritten", d.rewritten()},
	}
	if !d.DryRun {
		rows = append(rows, [2]string{"deleted", amount(d.Deleted)})
	}
	if !d.Locked.Until.IsZero() {
		rows = append(rows, [2]string{"locked", amount(d.Locked.Amount) + ", until " + v.text(d.Locked.Until)})
	}
	if d.Extended > 0 {
		rows = append(rows, [2]string{"retained for longer", fmt.Sprintf("%d objects", d.Extended)})
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

// rewritten is what rewriting took, or would take.
func (d *archivePruneDoc) rewritten() string {
	r := &d.Rewriting
	switch {
	case r.None != "":
		return "nothing: " + r.None
	case r.Packs == 0:
		return "nothing"
	}
	text := fmt.Sprintf("%d packs: reads %s, writes %s, USD %s of requests; frees about %s, USD %s a month", r.Packs,
		iBytes(r.ReadBytes), iBytes(r.WrittenBytes), usd(d.RewriteUSD), iBytes(r.FreedBytes), usd(d.FreedMonthUSD))
	if !d.DryRun {
		text += fmt.Sprintf("; replaces %d archives", r.Archives)
	}
	if r.Left > 0 {
		text += fmt.Sprintf(", and not %d that others changed meanwhile", r.Left)
	}
	return text
}
