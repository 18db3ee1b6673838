package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

// archiveWorkersFlags choose the pods that archive the blocks.
type archiveWorkersFlags struct {
	on                     bool
	pods                   int
	image, secret, account string
	tolerations            []string
	nodes                  map[string]string
	env                    workerEnv
}

const (
	workersFlag = "on-kubernetes"
	maxWorkers  = 1000
	// keyFolder is where pods have the key of the repository, as those of manifests/kustomize/archive.
	keyFolder = "/etc/tisnap/archive"
	// workersGrace is how long a pod may take to end: what it had begun is done again in any case.
	workersGrace = time.Minute
	// workersKept is how long a Job that ended is kept if the command died that would remove it.
	workersKept    = time.Hour
	workersRetries = 8
	// workersWithin ends a Job that the command has left, and whose pods wait for an image or for room. The nightly
	// CronJob retries for as long.
	workersWithin = 7 * 24 * time.Hour
	// workersRemoved bounds the wait for the pods' end; workersStart the wait for the first one to run.
	workersRemoved = 2 * time.Minute
	workersStart   = 15 * time.Minute
)

func (f *archiveWorkersFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.on, workersFlag, false,
		"have the blocks archived by the pods of a Job in --namespace, which this command makes and removes")
	fl.IntVar(&f.pods, "workers", 4, "with --"+workersFlag+": how many pods")
	fl.StringVar(&f.image, "image", "", "with --"+workersFlag+": image of tisnap")
	fl.StringVar(&f.secret, "worker-secret", "tisnap-archive-key",
		"with --"+workersFlag+
			": Secret whose file identity unlocks the repository; empty if the pods may use its KMS key")
	fl.StringVar(&f.account, "worker-service-account", "tisnap-worker",
		"with --"+workersFlag+": the pods' service account, whose AWS role reads blocks and writes the repository")
	fl.StringSliceVar(&f.tolerations, "worker-toleration", nil,
		"with --"+workersFlag+": taint of nodes that the pods may run on, as KEY=VALUE:EFFECT")
	fl.StringToStringVar(&f.nodes, "worker-node-selector", nil,
		"with --"+workersFlag+": labels of the nodes for the pods, as KEY=VALUE")
	addWorkerEnv(fl, &f.env, "with --"+workersFlag+": ")
}

func (f *archiveWorkersFlags) validate(repo *repoFlags) error {
	switch {
	case !f.on:
		return nil
	case f.image == "":
		return failure.New(failure.Usage, "", "", "--%s needs --image", workersFlag).
			WithHint("set --image REGISTRY/tisnap:v1 or TISNAP_IMAGE")
	case f.pods < 1 || f.pods > maxWorkers:
		return fmt.Errorf("--workers %d: want 1 to %d", f.pods, maxWorkers)
	case strings.HasPrefix(repo.url, "file:"):
		return fmt.Errorf("--%s: pods do not have the folder of --repo %s", workersFlag, repo.url)
	}
	return nil
}

// archiveWorkers are the pods of a run's Job.
type archiveWorkers struct {
	jobs *workers.Jobs
	spec workers.Spec // without the archive, which joinArgs has
	join func(archive string) []string
	made *workers.Job
}

// archiveWorkers returns those of the flags; nil without.
func (a *app) archiveWorkers(
	c *connections, f archiveCreateFlags, repo *repoFlags, of archiveRun,
) (*archiveWorkers, error) {
	if !f.workers.on {
		return nil, nil
	}
	client, err := c.kube()
	if err != nil {
		return nil, err
	}
	w := &archiveWorkers{jobs: client.Jobs()}
	w.jobs.StartWithin = workersStart
	w.spec = workers.Spec{
		Run: of.run, Namespace: client.Namespace(), Name: workers.NameOf("tisnap-archive", of.run),
		Image: f.workers.image, ServiceAccount: f.workers.account,
		Tolerations: f.workers.tolerations, NodeSelector: f.workers.nodes,
		Env:  maps.Clone(f.workers.env),
		Pods: f.workers.pods, Indexed: true, Retries: workersRetries, Final: finalCodes(),
		CPU: "500m", Memory: "512Mi", MemoryLimit: "2Gi",
		Grace: workersGrace, Within: workersWithin, Keep: workersKept,
	}
	if w.spec.Env == nil {
		w.spec.Env = map[string]string{}
	}
	w.spec.Env["TISNAP_PROGRESS"], w.spec.Env["TISNAP_GRACE_PERIOD"] = "json", workersGrace.String()
	if f.workers.secret != "" {
		w.spec.Secrets = []workers.Secret{{Name: f.workers.secret, Folder: keyFolder}}
	}
	limits, err := readLimits(f.limit)
	if err != nil {
		return nil, err
	}
	args := f.workers.joinArgs(&a.global, repo, of, limits.Reads)
	w.join = func(archive string) []string { return append([]string{"archive", "join", archive}, args...) }
	return w, nil
}

// joinArgs are the flags of the pods' command. Reads are of all pods together, as the quota is the account's; 0 is its
// default.
func (f *archiveWorkersFlags) joinArgs(g *globalFlags, repo *repoFlags, of archiveRun, reads float64) []string {
	each := max(cmp.Or(reads, defaultReads)/float64(f.pods), 1) * volume.BlockSize
	args := []string{
		"--workers=" + strconv.Itoa(f.pods), "--repo=" + repo.url, "--repo-id=" + of.repository,
		"--region=" + of.region, fmt.Sprintf("--limit-rate=%.0f", each),
	}
	if f.secret != "" {
		args = append(args, "--repo-identity="+path.Join(keyFolder, "identity"))
	}
	for _, one := range [][2]string{
		{"--endpoint-url", g.endpoint}, {"--ebs-role-arn", g.ebsRole}, {"--ebs-external-id", g.ebsExternalID},
		{"--repo-region", repo.region}, {"--repo-endpoint-url", repo.endpoint},
	} {
		if one[1] != "" {
			args = append(args, one[0]+"="+one[1])
		}
	}
	return args
}

// archiveRun is what the pods have to know of a run.
type archiveRun struct {
	run                cluster.RunID
	repository, region string
}

// finalCodes are those of `archive join` and `archive fill` after which a retry is of no use.
func finalCodes() (codes []int) {
	for _, kind := range []failure.Kind{
		failure.Usage, failure.NotFound, failure.Conflict, failure.Denied, failure.Corrupt,
	} {
		codes = append(codes, int(exitCodeOf(kind)))
	}
	return codes
}

// manifest is that of the Job of an archive.
func (w *archiveWorkers) manifest(archive string) (json.RawMessage, error) {
	spec := w.spec
	spec.Args = w.join(archive)
	return workers.Manifest(spec)
}

// Work implements create.Helpers.
func (w *archiveWorkers) Work(ctx context.Context, archive string, note func(format string, args ...any)) error {
	spec := w.spec
	spec.Args = w.join(archive)
	last := ""
	w.jobs.Waits = func(why error) {
		if text := why.Error(); text != last {
			note("%s", text)
			last = text
		}
	}
	making, cancel := context.WithTimeout(ctx, w.jobs.StartWithin)
	defer cancel()
	made, err := w.jobs.Make(making, spec)
	w.jobs.Waits = nil
	if err != nil {
		return err
	}
	w.made = &made
	note("job %s: up to %d pods", made, spec.Pods)
	return w.jobs.Wait(ctx, made, func(s workers.State) {
		text := fmt.Sprintf("job %s: %d of %d pods run", made, s.Ready, spec.Pods)
		if s.Failed > 0 {
			text += fmt.Sprintf(", %d failed", s.Failed)
		}
		if len(s.Waiting) > 0 {
			text += "; " + failure.List(s.Waiting)
		}
		if text != last {
			note("%s", text)
		}
		last = text
	})
}

// workersDoc is what became of the pods.
type workersDoc struct {
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
	Pods      int    `json:"pods"`
	// Left is set if the Job is still there.
	Left bool `json:"left"`
}

// end removes the run's Job once the archive is committed. Otherwise it stays: its pods continue, and the same command
// finds it. nil is without one.
func (w *archiveWorkers) end(ctx context.Context, committed bool, warn func(error)) *workersDoc {
	if w == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workersRemoved)
	defer cancel()
	doc := &workersDoc{Namespace: w.spec.Namespace, Job: w.spec.Name, Pods: w.spec.Pods}
	if !committed && w.made == nil {
		return nil
	}
	if committed {
		job, err := w.jobs.Find(ctx, w.spec.Run, w.spec.Namespace, w.spec.Name)
		if err == nil && job != nil {
			err = w.jobs.Remove(ctx, *job)
		}
		if err != nil {
			warn(fmt.Errorf("the archive is committed, and its Job may be left: %w", err))
		}
		doc.Left = err != nil
		return doc
	}
	doc.Left = true
	return doc
}

func (d *workersDoc) table(w io.Writer, committed bool) error {
	if d == nil || !d.Left || committed {
		return nil
	}
	_, err := fmt.Fprintf(w, "job %s/%s is left: unless it failed its pods continue, and the same command finds it; "+
		"end them with: kubectl -n %s delete job %s\n", d.Namespace, d.Job, d.Namespace, d.Job)
	return err
}
