package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/retention"
)

// archiveForgetDoc is the output of `tisnap archive forget`.
type archiveForgetDoc struct {
	header
	Repository string          `json:"repository"` // its id
	DryRun     bool            `json:"dryRun"`
	Items      []forgottenItem `json:"items"`
}

// forgottenItem is an archive, and what became of it.
type forgottenItem struct {
	ID      string       `json:"id"`
	Backup  string       `json:"backup,omitempty"`
	Cluster string       `json:"cluster,omitempty"`
	Of      *time.Time   `json:"backupTime,omitempty"`
	Action  forgetAction `json:"action"`
	Reason  string       `json:"reason"`
	// LockedUntil is until when Object Lock keeps what a forgotten archive uses.
	LockedUntil *time.Time `json:"lockedUntil,omitempty"`
	Error       string     `json:"error,omitempty"`
}

// forgetAction is what became of an archive.
type forgetAction string

const (
	archiveKept      forgetAction = "keep"
	archiveForget    forgetAction = "forget" // in a dry run
	archiveForgotten forgetAction = "forgotten"
	archiveLeft      forgetAction = "left" // after an error
)

type archiveForgetFlags struct {
	policy retention.Policy
	of     string // the cluster; "" is all
	undo   removal
}

func (a *app) archiveForgetCommand(repo *repoFlags) *cobra.Command {
	var f archiveForgetFlags
	cmd := &cobra.Command{
		Use:   "forget [ARCHIVE...]",
		Short: "Give archives up: those that are named, or that no rule keeps",
		Long: `Give archives up: those that are named, or that no rule keeps. A forgotten archive cannot be
restored any more. The storage that only it uses is freed by tisnap archive prune.

The rules are those of tisnap prune, by the time of the archived backup or of the import. Each cluster,
and each name of an import, is treated separately, and its newest archive is kept; --of leaves those of
other clusters alone. With names there are no rules, and an archive that cannot be read can be
forgotten, too.

On a terminal it shows what would be forgotten and asks; otherwise it needs --yes.`,
		Example: `  tisnap archive forget --keep-daily 30 --keep-monthly 12 --dry-run --repo s3://archive/prod \
    --repo-identity ops.key
  tisnap archive forget nightly-20261121-1a2b3c4d --yes --repo s3://archive/prod --repo-identity ops.key`,
		ValidArgsFunction: a.completeArchives(repo),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(args, a.asks()); err != nil {
				return usage(cmd, err)
			}
			return a.archiveForget(cmd.Context(), repo, f, args)
		},
	}
	keepFlags(cmd.Flags(), &f.policy)
	cmd.Flags().StringVar(&f.of, "of", "", "only archives of this cluster, NAMESPACE/NAME")
	f.undo.addUndo(cmd.Flags(), "print what would be forgotten; change nothing")
	a.localFlag(cmd)
	return cmd
}

func (f *archiveForgetFlags) validate(args []string, asks bool) error {
	err := f.policy.Validate()
	switch {
	case len(args) == 0 && err != nil:
		return fmt.Errorf("%w, or name archives", err)
	case len(args) > 0 && err == nil:
		return errors.New("give archives or rules, not both")
	case len(args) > 0 && f.of != "":
		return errors.New("--of goes with rules, not with names of archives")
	}
	return f.undo.validateUndo("this gives archives up", asks)
}

func (a *app) archiveForget(ctx context.Context, repo *repoFlags, f archiveForgetFlags, refs []string) error {
	r, done, err := a.openRepository(ctx, repo)
	if err != nil {
		return err
	}
	defer done()
	decisions, err := forgetting(ctx, r, f, refs)
	if err != nil {
		return err
	}
	doc := &archiveForgetDoc{
		header: newHeader("ArchiveForget"), Repository: r.ID().String(), DryRun: f.undo.dryRun,
		Items: []forgottenItem{},
	}
	for _, d := range decisions {
		item := forgottenItem{ID: d.ID, Backup: d.Backup, Cluster: d.Cluster, Action: archiveKept, Reason: d.Reason}
		if !d.Of.IsZero() {
			item.Of = &d.Of
		}
		if d.Forget {
			item.Action = archiveForget
			// It is for people: one that cannot be read is forgotten, too.
			if until, err := r.LockedUntil(ctx, d.ID); err == nil && !until.IsZero() {
				item.LockedUntil = &until
			}
		}
		doc.Items = append(doc.Items, item)
	}
	if f.undo.dryRun {
		return a.print(doc)
	}
	if err := a.confirmRemoval(ctx, &f.undo, "forget these archives?", func() (document, error) {
		return doc, nil
	}); err != nil {
		return err
	}
	err = doc.forget(ctx, r)
	a.recordInStorage(ctx, r)
	return errors.Join(err, a.print(doc))
}

// forgetting decides about the archives that are named, or about all by the policy, or those of one cluster.
func forgetting(
	ctx context.Context, r *repository.Repository, f archiveForgetFlags, refs []string,
) ([]prune.Decision, error) {
	if len(refs) == 0 {
		decisions, err := prune.Decide(ctx, r, f.policy)
		if err != nil || f.of == "" {
			return decisions, err
		}
		decisions = slices.DeleteFunc(decisions, func(d prune.Decision) bool { return d.Cluster != f.of })
		if len(decisions) == 0 {
			return nil, failure.New(failure.NotFound, "forget archives", f.of, "there is no archive of it").
				WithHint("list the archives' clusters: tisnap archive list")
		}
		return decisions, nil
	}
	ids, err := r.Archives(ctx)
	if err != nil {
		return nil, err
	}
	var out []prune.Decision
	for _, ref := range refs {
		d := prune.Decision{ID: ref, Forget: true, Reason: "it is named"}
		id, found, err := r.Find(ctx, ref)
		switch {
		case err == nil:
			d.ID, d.Backup, d.Cluster = id, found.Backup, found.Cluster
		case !slices.Contains(ids, ref) || !failure.Is(err, failure.Corrupt) && !failure.Is(err, failure.Usage):
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// forget forgets the archives, one after the other, as far as it gets.
func (d *archiveForgetDoc) forget(ctx context.Context, r *repository.Repository) error {
	var failed []error
	for i := range d.Items {
		item := &d.Items[i]
		if item.Action != archiveForget {
			continue
		}
		item.Action = archiveForgotten
		if err := prune.Forget(ctx, r, item.ID); err != nil {
			item.Action, item.Error = archiveLeft, failure.Line(err.Error())
			failed = append(failed, err)
		}
	}
	return failure.Join(failed...)
}

func (d *archiveForgetDoc) names() (names []string) {
	for _, i := range d.Items {
		names = append(names, nameIf(i.Action == archiveForgotten, "archive", i.ID)...)
	}
	return names
}

func (d *archiveForgetDoc) table(w io.Writer, v view) error {
	t := newTable("ACTION", "ID", "BACKUP", "CLUSTER", "TIME", "REASON")
	t.drop = []string{"CLUSTER", "BACKUP"}
	for _, i := range d.Items {
		of := ""
		if i.Of != nil {
			of = v.text(*i.Of)
		}
		reason := i.Reason
		if i.LockedUntil != nil {
			reason += "; what it uses is locked until " + v.text(*i.LockedUntil)
		}
		if i.Error != "" {
			reason = i.Error
		}
		t.row(i.Action, i.ID, i.Backup, i.Cluster, of, reason)
	}
	return t.write(w, v)
}
