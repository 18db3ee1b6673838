package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// archiveVerifyDoc is the output of `tisnap archive verify`.
type archiveVerifyDoc struct {
	header
	Repository string       `json:"repository"` // its id
	Level      verify.Level `json:"level"`
	Sample     float64      `json:"sample,omitempty"` // share of the blocks
	*verify.Result
}

func (a *app) archiveVerifyCommand(repo *repoFlags) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify [ARCHIVE...]",
		Short: "Find damage in archives",
		Long: `Find damage in archives, by default in all of the repository.

Each level includes those before it. All of them read archives and maps, in which any change
is found. With objects, packs exist and are long enough; with headers, their trailers agree with
the maps; with data, their blocks are read: all, or a random --sample.

With --against-snapshots the same share of the blocks of the archived snapshots, as far as these still
exist, is read by the EBS direct APIs, too, and their checksums are compared with those in the archives.

What is damaged is named, with the archives, volumes and blocks that it hits, and the exit code
is 10. A storage that cannot be read is an error of its own. Nothing is changed, except that the
repository, and the storage of the backups if there is a --storage, record how much was read, and
no longer what is damaged.`,
		Example: `  tisnap archive verify --level objects --repo s3://archive/prod --repo-identity ops.key
  tisnap archive verify latest --sample 1% --repo s3://archive/prod --repo-identity ops.key`,
		ValidArgsFunction: a.completeArchives(repo),
		RunE: func(cmd *cobra.Command, args []string) error {
			share, err := f.share(cmd)
			if err != nil {
				return usage(cmd, err)
			}
			a.limitMemory()
			return a.archiveVerify(cmd.Context(), repo, args, f, share)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.against, "against-snapshots", false,
		"compare with the archived snapshots, too: AWS charges each block that is read of them")
	return cmd
}

// verifyFlags are how damage is looked for.
type verifyFlags struct {
	level   verify.Level
	sample  string
	against bool // of verify: the snapshots are read, too
}

func (f *verifyFlags) add(cmd *cobra.Command) {
	levels := verify.Levels()
	choose(cmd, cmd.Flags(), &f.level, "level", []string{levels[2], levels[0], levels[1]}, "how much is read")
	cmd.Flags().StringVar(&f.sample, "sample", "all", "the blocks that --level data reads: all, or a share such as 1%")
	complete(cmd, "sample", "all", "1%", "10%")
}

// share is the share of the blocks to read.
func (f *verifyFlags) share(cmd *cobra.Command) (float64, error) {
	if f.level != verify.Data && !f.against && typed(cmd, "sample") {
		return 0, errors.New("--sample is of --level data, which alone reads blocks")
	}
	return parseSample(f.sample)
}

// parseSample returns the share of "all" or "1%".
func parseSample(text string) (float64, error) {
	if text == "all" {
		return 1, nil
	}
	share, ok := parseShare(text)
	if !ok || share == 0 {
		return 0, fmt.Errorf("--sample %q: want all, or a share such as 1%%", text)
	}
	return share, nil
}

// parseShare returns the share of "1%", from 0 to 1.
func parseShare(text string) (float64, bool) {
	number, isShare := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	return share / 100, err == nil && isShare && share >= 0 && share <= 100
}

func (a *app) archiveVerify(
	ctx context.Context, repo *repoFlags, refs []string, f verifyFlags, share float64,
) error {
	r, done, err := a.openRepository(ctx, repo)
	if err != nil {
		return err
	}
	defer done()
	opts := verify.Options{Level: f.level, Sample: share, Reads: archiveReads}
	result, err := a.verifyHeld(ctx, r, refs, f.against, &opts)
	if err != nil {
		return err
	}
	a.recordVerified(ctx, r, opts, result)
	doc := &archiveVerifyDoc{
		header: newHeader("ArchiveVerification"), Repository: r.ID().String(), Level: f.level, Result: result,
	}
	if f.level == verify.Data || f.against {
		doc.Sample = share
	}
	if err := a.print(doc); err != nil {
		return err
	}
	return doc.damaged(f.against)
}

// verifyHeld verifies under the lease of a reader what the references mean. There is no result if the lease was broken:
// the prune that broke it deletes what would count as damage.
func (a *app) verifyHeld(
	ctx context.Context, r *repository.Repository, refs []string, against bool, opts *verify.Options,
) (result *verify.Result, err error) {
	ctx, released, err := a.reading(ctx, r, "verify")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err = released(err); err != nil {
			result = nil
		}
	}()
	if opts.Archives, err = archiveIDs(ctx, r, refs); err != nil {
		return nil, err
	}
	s, err := a.session()
	if err != nil {
		return nil, err
	}
	defer s.end()
	if against {
		c, err := a.connections(s.log)
		if err != nil {
			return nil, err
		}
		defer c.close()
		from := &outside{app: a, connections: c, direct: map[string]ebsdirect.Source{}}
		opts.Against = from.snapshot
	}
	emit := s.emitVerify(string(opts.Level))
	emit(phase.StepStarted, 0, 0)
	opts.Progress = func(done, total int64) { emit(phase.Progress, done, total) }
	if result, err = verify.Run(ctx, r, *opts); err != nil {
		return nil, failure.Annotate(err, "verify archives", "")
	}
	emit(phase.StepFinished, 0, 0)
	return result, nil
}

// emitVerify shows how far a verification is.
func (s *session) emitVerify(level string) func(what phase.EventType, done, total int64) {
	began := time.Now()
	return func(what phase.EventType, done, total int64) {
		now := time.Now()
		s.progress.Emit(phase.Event{
			Type: what, Time: now, Phase: "verify", Step: level, Done: done, Total: total, Unit: "map segments",
			Elapsed: now.Sub(began),
		})
	}
}

// archiveIDs are those that the references mean, each once, or all of the repository.
func archiveIDs(ctx context.Context, r *repository.Repository, refs []string) ([]string, error) {
	if len(refs) == 0 {
		ids, err := r.Archives(ctx)
		if err == nil && len(ids) == 0 {
			err = failure.New(failure.NotFound, "verify archives", "", "the repository has no archive")
		}
		return ids, err
	}
	var ids []string
	for _, ref := range refs {
		id, _, err := r.Find(ctx, ref)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// damaged names the damaged objects; nil if there are none. against: some snapshot had to be compared.
func (d *archiveVerifyDoc) damaged(against bool) error {
	var objects []string
	seen := map[string]bool{}
	for _, f := range d.Findings {
		if !seen[f.Object] {
			seen[f.Object] = true
			objects = append(objects, f.Object)
		}
	}
	switch {
	case len(objects) == 0 && against && d.Opened == 0 && len(d.Gone) > 0:
		return failure.New(failure.NotFound, "compare archives", "", "none of the snapshots exists: %s",
			failure.List(d.Gone)).
			WithHint("use the account that they were made in, or leave --against-snapshots out")
	case len(objects) == 0:
		return nil
	}
	return failure.New(failure.Corrupt, "verify archives", "", "%d objects are damaged: %s", len(objects),
		failure.List(objects)).
		WithHint("run `tisnap archive repair --dry-run`, archive the backups again while their snapshots exist, and " +
			"find out what damages the storage")
}

func (d *archiveVerifyDoc) names() (names []string) {
	for _, f := range d.Findings {
		names = append(names, nameIf(true, "object", f.Object)...)
	}
	return names
}

func (d *archiveVerifyDoc) table(w io.Writer, _ view) error {
	for i := range d.Findings {
		f := &d.Findings[i]
		_, err := fmt.Fprintf(w, "archive %s, %s:\n  %s: %s\n", oneLine(f.Archive), hit(f), f.Object, f.Problem)
		if err != nil {
			return err
		}
	}
	compared := ""
	if d.Compared > 0 || len(d.Gone) > 0 {
		compared = fmt.Sprintf(", %s compared with snapshots, of which %d are gone", humanize.Comma(d.Compared),
			len(d.Gone))
	}
	_, err := fmt.Fprintf(w, "%d archives, %s map segments, %s blocks read%s: %d findings\n", d.Archives,
		humanize.Comma(d.Segments), humanize.Comma(d.Blocks), compared, len(d.Findings))
	return err
}

// hit is what a finding is about.
func hit(f *verify.Finding) string {
	what := "all of it"
	if f.Store != 0 {
		what = fmt.Sprintf("store %d %s", f.Store, oneLine(f.Role))
	}
	if len(f.Blocks) == 0 {
		return what
	}
	blocks := make([]string, len(f.Blocks))
	for i, r := range f.Blocks {
		blocks[i] = r.String()
	}
	return what + ", blocks " + failure.List(blocks)
}
