package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/adopt"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/storage"
)

// adoptDoc is the output of `tisnap adopt`.
type adoptDoc struct {
	header
	DryRun   bool             `json:"dryRun"`
	Backup   cluster.BackupID `json:"backup"`
	Cluster  cluster.Name     `json:"cluster"`
	BackupTS cluster.TS       `json:"backupTS"`
	Parts    partsDoc         `json:"parts"`
	Report   *report.Report   `json:"report"`
}

func (d *adoptDoc) names() []string { return nameIf(true, "backup", d.Backup) }

func (d *adoptDoc) table(w io.Writer, v view) error {
	if err := d.Parts.table(w, v); err != nil {
		return err
	}
	what := "sealed as"
	if d.DryRun {
		what = "would be sealed as"
	}
	_, err := fmt.Fprintf(w, "%d stores of %s, backup ts %s: %s %s\n", d.Report.TiKVs, d.Cluster, d.BackupTS, what,
		oneLine(d.Backup))
	return err
}

// partDoc is a part of an adopted backup.
type partDoc struct {
	Name     string            `json:"name"`
	Cluster  cluster.Name      `json:"cluster"`
	Stores   []cluster.StoreID `json:"stores"`
	BackupTS cluster.TS        `json:"backupTS"`
	Backup   cluster.BackupID  `json:"backup"`
	Location string            `json:"location"`
}

type partsDoc []partDoc

func partsOf(m *manifest.Manifest) partsDoc {
	var out partsDoc
	for _, p := range m.Parts {
		out = append(out, partDoc{
			Name: p.Name, Cluster: p.Cluster, Stores: p.Stores, BackupTS: p.BackupTS, Backup: p.Backup,
			Location: p.Location,
		})
	}
	return out
}

// table writes the parts and an empty line; nothing without any.
func (d partsDoc) table(w io.Writer, v view) error {
	if len(d) == 0 {
		return nil
	}
	t := newTable("PART", "CLUSTER", "STORES", "BACKUP-TS", "STORAGE")
	t.drop = []string{"BACKUP-TS", "CLUSTER"}
	for _, p := range d {
		t.row(p.Name, p.Cluster, strings.Trim(fmt.Sprint(p.Stores), "[]"), p.BackupTS, p.Location)
	}
	if err := t.write(w, v); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// restored writes how the parts are restored.
func (d partsDoc) restored(w io.Writer, v view) error {
	if len(d) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nall %d parts become one cluster here; a VolumeRestore of TiDB Operator restores each "+
		"into a Kubernetes cluster of its own, from these storages:\n\n", len(d))
	if err != nil {
		return err
	}
	return d.table(w, v)
}

// adoptFlags are the flags of `tisnap adopt`.
type adoptFlags struct {
	parts              []string
	verifyKey, signKey string
	dryRun             bool
}

func (a *app) adoptCommand() *cobra.Command {
	var f adoptFlags
	cmd := &cobra.Command{
		Use:   "adopt BACKUP --part URL --part URL…",
		Short: "Make one backup of the parts of a VolumeBackup",
		Long: `Make one backup of the parts of a VolumeBackup.

TiDB Operator's federation backs up a cluster that runs in several Kubernetes clusters in as
many parts, each in a storage of its own. This makes them the backup BACKUP in --storage, on
which list, describe, copy, lock, archive, report and restore work. They have to be of one
cluster and of one hold, and have every store once; EC2 is asked for each snapshot.

Nothing is copied: the snapshots stay those of the parts, which are pinned in their storages.
tisnap delete removes BACKUP alone. The same command finishes an adoption that was killed.`,
		Example: `  tisnap adopt nightly-1 --storage s3://backups/whole \
    --part a=s3://backups/nightly-1-k8s-a --part b=s3://backups/nightly-1-k8s-b`,
		Args: exactly("BACKUP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := cluster.BackupID(args[0])
			if err := manifest.CheckID(id); err != nil {
				return usage(cmd, err)
			}
			named, err := f.named()
			if err != nil {
				return usage(cmd, err)
			}
			doc, err := a.adopt(cmd.Context(), f, id, named)
			if err != nil {
				return err
			}
			return a.print(doc)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.parts, "part", nil,
		"storage of a part, as NAME=URL or URL: NAME, of its Kubernetes cluster, is the end of the URL by default "+
			"(repeatable)")
	verifyKeyFlag(cmd, &f.verifyKey)
	fl.StringVar(&f.signKey, "sign-key", "", "minisign secret key file that signs the backup")
	fl.BoolVar(&f.dryRun, "dry-run", false, "check everything and print what would be adopted; change nothing")
	return cmd
}

// namedPart is a --part.
type namedPart struct{ name, url string }

// named parses --part.
func (f *adoptFlags) named() ([]namedPart, error) {
	if len(f.parts) < 2 {
		return nil, errors.New("give --part twice or more: the storage of each part of the VolumeBackup")
	}
	seen := map[string]bool{}
	var out []namedPart
	for _, text := range f.parts {
		p := namedPart{url: text}
		if name, url, ok := strings.Cut(text, "="); ok && !strings.Contains(name, ":") {
			p = namedPart{name, url}
		} else {
			p.name = path.Base(strings.TrimRight(text, "/"))
		}
		switch {
		case p.name == "" || p.url == "":
			return nil, fmt.Errorf("--part %q: want NAME=URL or URL", text)
		case seen[p.name]:
			return nil, fmt.Errorf("--part %q: two parts are called %s: name them with NAME=URL", text, p.name)
		}
		seen[p.name] = true
		out = append(out, p)
	}
	return out, nil
}

func (a *app) adopt(
	ctx context.Context, f adoptFlags, id cluster.BackupID, named []namedPart,
) (_ *adoptDoc, err error) {
	o := adopt.Options{Backup: id, Tool: a.version.Version, DryRun: f.dryRun}
	if o.VerifyKey, err = readVerifyKey(f.verifyKey); err != nil {
		return nil, err
	}
	if o.SignKey, err = readSigningKey(f.signKey); err != nil {
		return nil, err
	}
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return nil, err
	}
	defer c.close()
	store, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.openToPin(ctx, store, "adopt", f.dryRun); err != nil {
		return nil, err
	}
	config := objstore.Config{
		Region: c.global.region, Endpoint: c.global.endpoint, Profile: c.global.profile, Log: c.log,
	}
	for _, p := range named {
		from, err := c.storeAt(ctx, p.url, config)
		if err != nil {
			return nil, err
		}
		if !f.dryRun { // a pin needs conditional writes
			if _, err := storage.Open(ctx, from, a.version.Version); err != nil {
				return nil, err
			}
		}
		o.Parts = append(o.Parts, adopt.Source{Name: p.name, Store: from})
	}
	o.OpenEC2 = func(ctx context.Context, region string) (adopt.EC2, error) {
		return c.ebsAt(ctx, ebs.Config{Region: region})
	}
	if !f.dryRun {
		defer a.unfinished("adopt", "run the same command again: it finishes the adoption")()
	}
	made, err := adopt.Adopt(ctx, store, o)
	if err != nil {
		return nil, err
	}
	return a.adopted(ctx, store, f, made)
}

// adopted stores the report and returns the document.
func (a *app) adopted(
	ctx context.Context, store objstore.Store, f adoptFlags, made *adopt.Result,
) (*adoptDoc, error) {
	m := made.Manifest
	doc := &adoptDoc{
		header: newHeader("AdoptResult"), DryRun: f.dryRun, Backup: m.ID, Cluster: m.Source.Cluster,
		BackupTS: m.BackupTS, Parts: partsOf(m), Report: adoptReport(made),
	}
	if f.dryRun {
		return doc, nil
	}
	return doc, putReport(ctx, store, doc.Report)
}

// adoptReport is the report of the backup that the parts are together, by what their manifests have.
func adoptReport(made *adopt.Result) *report.Report {
	m := made.Manifest
	h := report.Header{
		Operation: report.Backup, Run: m.Run, Backup: m.ID, Cluster: m.Source.Cluster, Outcome: phase.Done,
		Started: m.CreatedAt, Finished: made.SealedAt, TiKVs: len(m.Source.Stores), Volumes: len(m.Snapshots),
		DataBytes: made.DataBytes, DataPerVolumeBytes: made.LargestBytes, EarlyApply: earlyApplyOf(m),
		VolumeSettings: report.SettingsOf(sourceSpecs(&m.Source)),
	}
	for _, p := range m.Parts {
		h.Checks = append(h.Checks, fmt.Sprintf("part %s: %d stores, cut under the hold of run %s", p.Name,
			len(p.Stores), m.HeldBy))
	}
	var timings phase.Timings
	last := m.CreatedAt
	for _, p := range []phase.Timing{
		{Phase: "prepare parts", Start: m.CutStartedAt}, {Phase: "cut parts", Start: m.CutEndedAt},
		{Phase: "volume snapshots", Start: made.SealedAt},
	} {
		end := p.Start
		p.Start, p.Seconds, p.Outcome = last, max(0, end.Sub(last).Seconds()), phase.Done
		timings, last = append(timings, p), end
	}
	return report.New(h, timings)
}
