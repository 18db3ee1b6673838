package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/doctor"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// doctorDoc is the output of `tisnap doctor`.
type doctorDoc struct {
	header
	Cluster cluster.Name   `json:"cluster"`
	For     doctor.Purpose `json:"for"`
	Checks  []doctor.Check `json:"checks"`
}

func (a *app) doctorCommand() *cobra.Command {
	var purpose doctor.Purpose
	var archiveKeys []string
	var repo repoFlags
	cmd := &cobra.Command{
		Use:         "doctor CLUSTER",
		Annotations: without("name"),
		Short:       "Check permissions, storage, keys, quotas, settings and clocks, with a fix for each problem",
		Long: `Check everything that a backup, a restore, gc, an archive or a copy needs, or with --for drill
a drill, and show what to do about each problem: access to Kubernetes, PD, TiKV, EC2 and S3; RBAC
by access reviews; IAM by EC2's dry runs; the storage and its bucket; KMS keys; quotas; TiKV's
settings; clocks. With --repo, for an archive or all, also what the repository of archives needs,
and the Jobs of archive create and restore in --namespace, and with --archive-key its key.

The checks are those of backup and restore before their first change. They run at the same
time, and none hides another. Nothing is changed, except that an object is written to the
storage, and to the repository, and deleted. A check that could not be made is unknown, not ok. The exit code is 5
if a check failed; warnings and unknown checks alone leave it at 0.

For a restore or a drill, CLUSTER is the source: the quotas must have room for a copy of its
volumes. For a copy, the credentials and the storage are those of the account that gets it.`,
		Example: `  tisnap doctor tidb/prod --storage s3://backups/prod
  tisnap doctor tidb/prod --storage s3://backups/prod --for drill
  tisnap doctor prod -n tidb --storage s3://backups/prod -o json`,
		Args:              exactly("CLUSTER"),
		ValidArgsFunction: a.completeClusters,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, flag := range []string{"repo", "archive-key"} {
				if purpose != doctor.All && purpose != doctor.Archive && typed(cmd, flag) {
					return usage(cmd, fmt.Errorf("--%s is not checked --for %s, only for archive and all", flag,
						purpose))
				}
			}
			return a.doctor(cmd.Context(), args[0], purpose, archiveKeys, &repo)
		},
	}
	choose(cmd, cmd.Flags(), &purpose, "for", doctor.Purposes(), "what to check for")
	archiveKeysFlag(cmd.Flags(), &archiveKeys)
	repo.addPlace(cmd.Flags())
	return cmd
}

func (a *app) doctor(
	ctx context.Context, arg string, purpose doctor.Purpose, archiveKeys []string, repo *repoFlags,
) error {
	name, err := a.global.clusterName(arg)
	if err != nil {
		return err
	}
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return err
	}
	defer c.close()
	deps := c.doctorDeps()
	deps.ArchiveKeys, deps.KMS = archiveKeys, a.slotKMS(repo)
	if repo.url != "" {
		deps.Repository = func(ctx context.Context) (objstore.Store, error) { return a.repoStore(ctx, c, repo) }
	}
	doc := &doctorDoc{
		header: newHeader("Doctor"), Cluster: name, For: purpose,
		Checks: doctor.Run(ctx, deps, name, purpose),
	}
	return errors.Join(a.print(doc), doc.failed())
}

// checkLimit is longer than any client waits for an answer before it reports that.
const checkLimit = 30 * time.Second

// doctorDeps opens the connections as a backup does.
func (c *connections) doctorDeps() doctor.Deps {
	var client *kube.Client
	return doctor.Deps{
		Kube: func(context.Context) (_ doctor.Kube, err error) {
			client, err = c.kube()
			return client, err
		},
		PD: func(ctx context.Context, tc kube.TidbCluster) (doctor.PD, error) {
			return c.sourcePD(ctx, client, &tc)
		},
		TiKV:  func() doctor.TiKV { return c.tikv() },
		EBS:   func(ctx context.Context) (doctor.EBS, error) { return c.ebs(ctx) },
		Store: func(ctx context.Context) (objstore.Store, error) { return c.store(ctx) },
		Blocks: func(ctx context.Context) (ebsdirect.Source, error) {
			e, err := c.ebs(ctx)
			if err != nil {
				return nil, err
			}
			return c.ebsDirect(ctx, e.Region(), ebsdirect.Limits{})
		},
		Now:   time.Now,
		Limit: checkLimit,
	}
}

// failed is the error that decides the exit code.
func (d *doctorDoc) failed() error {
	var names []string
	for _, c := range d.Checks {
		if c.Status == doctor.Fail {
			names = append(names, c.Name+" "+c.Subject)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return failure.New(failure.Unready, "check", d.Cluster.String(), "%d of %d checks failed: %s", len(names),
		len(d.Checks), strings.Join(names, ", ")).WithHint("apply each fix, and check again")
}

// table shows one line for each check, cut to the terminal's width, and below it in full what is not ok, with its fix.
func (d *doctorDoc) table(w io.Writer, v view) error {
	t := newTable("CHECK", "OF", "STATUS", "FOUND")
	for _, c := range d.Checks {
		t.row(c.Name, shorten(c.Subject, maxSubject, v), c.Status, c.Found)
	}
	t.cut = true
	if err := t.write(w, v); err != nil {
		return err
	}
	for _, c := range d.Checks {
		if c.Status == doctor.OK {
			continue
		}
		text := fmt.Sprintf("\n%s: %s %s: %s\n", c.Status, c.Name, oneLine(c.Subject), oneLine(c.Found))
		if c.Fix != "" {
			text += "  fix: " + oneLine(c.Fix) + "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// maxSubject leaves most of a terminal for what was found.
const maxSubject = 30

// shorten cuts a text from the left, where ARNs are alike.
func shorten(text string, most int, v view) string {
	if n := utf8.RuneCountInString(text); n > most && !v.wide {
		return "…" + string([]rune(text)[n-most+1:])
	}
	return text
}
