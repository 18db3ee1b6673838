package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// reportFlags are the flags of `tisnap report`.
type reportFlags struct {
	format, out, since string
	open, compare      bool
	details            bool
	latest             latestFlags
}

func (a *app) reportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:         "report [BACKUP|RUN]",
		Annotations: without("name"),
		Short:       "Show how long runs took: one backup with its restores, or the trend of all",
		Long: `Show how long runs took. With a backup or a run: all runs of that backup, each with its phases, steps and stores,
and what was expected. Without: the trend of the storage's runs since --since, failures, and what got slower
than its own median. HTML reports are one self-contained file. Nothing is changed.`,
		Example: `  tisnap report prod-20261121-100000 --storage s3://backups/prod
  tisnap report latest --storage s3://backups/prod --open
  tisnap report prod-20261121-100000 --storage s3://backups/prod --format html --out report.html
  tisnap report --since 30d --storage s3://backups/prod`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeBackups,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.complete(cmd, a.global.output, len(args) > 0); err != nil {
				return usage(cmd, err)
			}
			if len(args) == 1 {
				id, err := a.backupID(cmd, f.latest, args[0])
				if err != nil {
					return err
				}
				args[0] = string(id)
			}
			doc, err := a.report(cmd.Context(), f, args)
			if err != nil {
				return err
			}
			return a.deliver(cmd.Context(), f, doc)
		},
	}
	a.latestFlags(cmd, &f.latest)
	fl := cmd.Flags()
	choose(cmd, fl, &f.format, "format", []string{"table", "json", "markdown", "html"}, "format of the report")
	fl.StringVar(&f.out, "out", "", "write the report to this file instead of stdout")
	fl.StringVar(&f.since, "since", "",
		"show the trend since then: 30d, 12h or 2026-11-01 (default without an argument: 30d)")
	fl.BoolVar(&f.open, "open", false, "write HTML to a file and open it in the browser")
	fl.BoolVar(&f.compare, "compare", false, "show the published figures beside the run's")
	fl.BoolVar(&f.details, "details", false,
		"show the steps of each phase and the parts of the hold; table and markdown")
	return cmd
}

func (f *reportFlags) complete(cmd *cobra.Command, output string, named bool) error {
	if output != "table" && !cmd.Flags().Changed("format") {
		f.format = "json" // -o is every command's word for it; a.print makes YAML of it
	}
	switch {
	case output != "table" && f.format != "json":
		return fmt.Errorf("--output %s and --format %s are mutually exclusive", output, f.format)
	case !named && f.latest != (latestFlags{}):
		return fmt.Errorf("--before and --of choose the latest backup: give latest as BACKUP")
	case named && f.since != "":
		return fmt.Errorf("--since shows the trend of all runs: omit %s", cmd.Flags().Arg(0))
	case f.open && cmd.Flags().Changed("format") && f.format != "html":
		return fmt.Errorf("--open shows HTML: omit --format")
	}
	if f.open {
		f.format = "html"
	}
	if f.since == "" {
		f.since = "30d"
	}
	_, err := parseTime("since", f.since, time.Now())
	return err
}

// noReport is the error for a backup or run without a report, which may be live or dead.
func noReport(ctx context.Context, store objstore.Store, name string, err error) error {
	if failure.Is(err, failure.NotFound) {
		if _, noRun := runOf(ctx, store, name); noRun != nil {
			return err // it has the nearest names
		}
	} else if err != nil {
		return err
	}
	return failure.New(failure.NotFound, "find report", name, "no report of it is stored").
		WithHint("see how far its run is with: tisnap status %s", name)
}

// parseTime reads a flag's time: 30d or 12h30m, also with " ago", 2026-11-01, or RFC 3339.
func parseTime(flag, given string, now time.Time) (time.Time, error) {
	text := strings.TrimSuffix(given, " ago")
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("--%s %q: want 30d, \"2h ago\", 2026-11-01 or 2026-11-01T10:00:00Z", flag, given)
}

// reportDocument is what `tisnap report` shows, in every format.
type reportDocument interface {
	document
	markdown() (string, error)
	html() (string, error)
}

func (a *app) report(ctx context.Context, f reportFlags, args []string) (reportDocument, error) {
	store, done, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	reader := history.Open(store)
	cache := a.global.historyCache(store)
	cache.load(reader)
	defer cache.save(reader)
	if len(args) == 1 {
		found, err := reader.Find(ctx, args[0])
		if err == nil && found.Report() != nil {
			return newRunReport(found, f), nil
		}
		return nil, noReport(ctx, store, args[0], err)
	}
	since, err := parseTime("since", f.since, time.Now())
	if err != nil {
		return nil, err
	}
	state, err := reader.Runs(ctx, since)
	if err != nil {
		return nil, err
	}
	return newTrendReport(history.NewTrend(state.Runs, since)), nil
}
