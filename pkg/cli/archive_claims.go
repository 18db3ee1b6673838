package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/archive/claims"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/workers"
	"github.com/tisnap/tisnap/pkg/phase"
)

// archiveClaimsDoc is the output of `tisnap archive restore --to-claims`.
type archiveClaimsDoc struct {
	header
	Archive   string          `json:"archive"`
	Run       cluster.RunID   `json:"run"`
	Namespace string          `json:"namespace"`
	Items     []restoredClaim `json:"items"`
}

// restoredClaim is the claim of an archived volume. It is filled without an error.
type restoredClaim struct {
	archiveVolume
	Claim  string             `json:"claim,omitempty"`
	Volume blockvolume.Volume `json:"volume"`
	Error  string             `json:"error,omitempty"`
}

// fillFlags describe claims, and the pods that fill them.
type fillFlags struct {
	class     string
	workers   int
	pod       workers.Spec
	keySecret string
	env       workerEnv
}

// claimFlags select which claims are made and filled.
type claimFlags struct {
	on, remove, yes bool
	fillFlags
}

func (f *claimFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.on, "to-claims", false,
		"make block volumes by claims in --namespace, and fill them by Jobs (--image)")
	f.fillFlags.add(cmd, "StorageClass of the claims (default: the cluster's)")
	fl.BoolVar(&f.remove, "remove", false,
		"with --to-claims: remove the run's Jobs and claims with their volumes, filled ones too")
	fl.BoolVarP(&f.yes, "yes", "y", false, "with --remove: do not ask")
}

// add registers the flags; class describes that of the StorageClass.
func (f *fillFlags) add(cmd *cobra.Command, class string) {
	fl := cmd.Flags()
	fl.StringVar(&f.class, "storage-class", "", class)
	fl.StringVar(&f.pod.Image, "image", "", "image of tisnap, for the Jobs' pods")
	fl.StringVar(&f.pod.ServiceAccount, "worker-service-account", "tisnap-worker",
		"service account of the pods, whose AWS role reads the repository")
	fl.StringVar(&f.keySecret, "worker-secret", "tisnap-archive-key",
		"Secret whose file identity unlocks the repository; empty if the pods may use its KMS key")
	fl.IntVar(&f.workers, "workers", 3, "how many stores are filled at the same time, by a pod each")
	fl.StringVar(&f.pod.Memory, "worker-memory", "1Gi", "memory of a pod")
	fl.StringVar(&f.pod.CPU, "worker-cpu", "2", "CPUs that a pod requests")
	fl.StringToStringVar(&f.pod.NodeSelector, "worker-node-selector", nil,
		"labels of the nodes for the pods, as KEY=VALUE")
	fl.StringSliceVar(&f.pod.Tolerations, "worker-toleration", nil, "taint that the pods tolerate, as KEY=VALUE:EFFECT")
	addWorkerEnv(fl, &f.env, "")
}

// typedOf reports whether the user gave any of the flags.
func (f *fillFlags) typedOf(cmd *cobra.Command) bool {
	own := &cobra.Command{}
	(&fillFlags{}).add(own, "")
	given := false
	own.Flags().VisitAll(func(flag *pflag.Flag) { given = given || typed(cmd, flag.Name) })
	return given
}

func (f *claimFlags) check(cmd *cobra.Command) error {
	switch {
	case !f.on && (typed(cmd, "storage-class") || typed(cmd, "image") || typed(cmd, "remove")):
		return errors.New("--storage-class, --image and --remove are for --to-claims")
	case f.on && !f.remove && f.pod.Image == "":
		return errors.New("--image is missing: the image of tisnap, for the pods that fill the volumes")
	}
	return f.validate()
}

func (f *fillFlags) validate() error {
	if f.workers < 1 {
		return fmt.Errorf("--workers %d: want at least 1", f.workers)
	}
	return nil
}

// podOf is what all pods have in common, of which the arguments are those of the repository.
func (a *app) podOf(f *fillFlags, repo *repoFlags, id string) workers.Spec {
	pod := f.pod
	pod.MemoryLimit, pod.Env = pod.Memory, f.env
	pod.Root = true // a block device belongs to root on its node
	pod.Args = []string{"--repo", repo.url, "--repo-id", id}
	if region := cmp.Or(repo.region, a.global.region); region != "" {
		pod.Args = append(pod.Args, "--repo-region", region)
	}
	if endpoint := cmp.Or(repo.endpoint, a.global.endpoint); endpoint != "" {
		pod.Args = append(pod.Args, "--repo-endpoint-url", endpoint)
	}
	if f.keySecret != "" {
		pod.Args = append(pod.Args, "--repo-identity", path.Join(keyFolder, "identity"))
		pod.Secrets = []workers.Secret{{Name: f.keySecret, Folder: keyFolder}}
	}
	return pod
}

func (a *app) archiveClaims(
	ctx context.Context, repo *repoFlags, found readArchive, f *claimFlags, run string,
) error {
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.end()
	c, err := a.connections(s.log)
	if err != nil {
		return err
	}
	defer c.close()
	k, err := c.kube()
	if err != nil {
		return err
	}
	filler := &claims.Filler{
		Claims: k.BlockVolumes(), Jobs: k.Jobs(), Stand: claims.Watch(showPods(s.progress)),
		Options: claims.Options{
			Run: claimsRun(run, found.id), Archive: found.id, Namespace: k.Namespace(), Workers: f.workers,
			Pod:   a.podOf(&f.fillFlags, repo, found.Repository.ID().String()),
			Final: finalCodes(),
		},
	}
	filler.Jobs.StartWithin = workersStart
	filler.Claims.Interval, filler.Jobs.Interval = a.streams.poll, a.streams.poll
	if f.remove {
		return a.removeClaims(ctx, filler, f.yes)
	}
	class, err := filler.Claims.Class(ctx, f.class)
	if err != nil {
		return err
	}
	filler.Options.Class = class.Name
	items, err := filler.Fill(ctx, found.archive)
	s.end()
	doc := &archiveClaimsDoc{
		header: newHeader("ArchiveClaims"), Archive: found.id, Run: filler.Options.Run,
		Namespace: filler.Options.Namespace, Items: []restoredClaim{},
	}
	for i := range items {
		doc.Items = append(doc.Items, claimOf(&items[i]))
	}
	return errors.Join(a.print(doc), err)
}

func claimOf(item *claims.Item) restoredClaim {
	out := restoredClaim{
		archiveVolume: describeVolume(item.Store, item.Volume), Claim: item.Claim.Name, Volume: item.Bound,
	}
	if item.Err != nil {
		out.Error = failure.Line(item.Err.Error())
	}
	return out
}

// claimsRun is the run that makes an archive's claims: the same one for the same archive, unless the user names
// another.
func claimsRun(named, archive string) cluster.RunID {
	return cluster.RunID(cmp.Or(named, "claims-of-"+archive))
}

func (a *app) removeClaims(ctx context.Context, filler *claims.Filler, yes bool) error {
	o := filler.Options
	if !yes && !a.asks() {
		return failure.New(failure.Usage, "remove claims", string(o.Run),
			"--yes is missing, and there is no one to ask")
	}
	if !yes {
		question := fmt.Sprintf("delete the claims of run %s in %s, and the data on their volumes?", o.Run, o.Namespace)
		if err := a.confirm(ctx, question); err != nil {
			return err
		}
	}
	removed, err := filler.Remove(ctx)
	for _, claim := range removed {
		fmt.Fprintf(a.streams.Err, "removed claim %s and its volume\n", claim)
	}
	return err
}

// showPods notes how the pods stand.
func showPods(sink phase.Sink) func(store uint64, text string, s workers.State) {
	return func(store uint64, text string, _ workers.State) {
		sink.Emit(phase.Event{
			Type: phase.Note, Time: time.Now(), Phase: phaseRestore, Step: fmt.Sprintf("store %d", store),
			Message: text,
		})
	}
}

func (d *archiveClaimsDoc) names() (names []string) {
	for _, i := range d.Items {
		names = append(names, nameIf(i.Error == "", "persistentvolumeclaim", i.Claim)...)
	}
	return names
}

func (d *archiveClaimsDoc) table(w io.Writer, v view) error {
	t := newTable("STORE", "ROLE", "SIZE", "DATA", "CLAIM", "VOLUME", "DRIVER")
	t.drop = []string{"DATA", "SIZE", "DRIVER"}
	for _, i := range d.Items {
		t.row(i.Store, i.Role, iBytes(i.Size), iBytes(i.Saved*volume.BlockSize), i.Claim, i.Volume.Handle,
			i.Volume.Driver)
	}
	return t.write(w, v)
}
