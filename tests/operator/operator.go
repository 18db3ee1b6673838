package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/testbed"
)

const (
	poll = 20 * time.Millisecond
	// Bucket is that of the recorded command lines.
	Bucket = "lab-bucket"
	// Prefix is theirs, too.
	Prefix = "vb1-k8s-a"
)

// Operator is TiDB Operator with its backup-manager, for one Backup and one Restore in the same storage.
type Operator struct {
	Bed     *testbed.Testbed
	Dir     string
	Program string // br, as it is in the image
	// BackupOptions and RestoreOptions are spec.br.options of the two CRs. The manager puts them behind its own arguments of
	// each call but that of initialize.
	BackupOptions, RestoreOptions []string
	TLS                           cluster.TLSFiles // of clusters with TLS: the manager gives them to br with each call
	Place                         string           // of the storage in the bucket; "" is Prefix

	jobs int
}

// Storage is the bucket's prefix, as the Operator's own client sees it.
func (o *Operator) Storage(ctx context.Context) (objstore.Store, error) {
	o.Bed.S3.CreateBucket(Bucket)
	return objstore.Open(ctx, "s3://"+Bucket+"/"+cmp.Or(o.Place, Prefix), objstore.Config{Region: testbed.Region, Endpoint: o.Bed.AWS()})
}

// Upload writes an object, over an older one.
func (o *Operator) Upload(ctx context.Context, key string, body []byte) error {
	store, err := o.Storage(ctx)
	if err != nil {
		return err
	}
	if err := store.Delete(ctx, key); err != nil && !failure.Is(err, failure.NotFound) {
		return err
	}
	_, err = store.Create(ctx, key, body)
	return err
}

// Download reads an object of the storage.
func (o *Operator) Download(ctx context.Context, key string) ([]byte, error) {
	store, err := o.Storage(ctx)
	if err != nil {
		return nil, err
	}
	body, _, err := store.Get(ctx, key)
	return body, err
}

// Job makes the pod of a Job of the recorded kind for a cluster.
func (o *Operator) Job(ctx context.Context, recorded string, name cluster.Name) (*Pod, error) {
	o.jobs++
	p, err := newPod(ctx, o.Bed, filepath.Join(o.Dir, fmt.Sprintf("job-%d", o.jobs)), recorded, o.Program, pdAddress(o.Bed, name))
	if err != nil {
		return nil, err
	}
	p.place = cmp.Or(o.Place, Prefix)
	return p, nil
}

// begin starts br at a step, in a pod of its own that is got ready first.
func (o *Operator) begin(ctx context.Context, recorded, step string, name cluster.Name, ready ...func(*Pod) error) (*Run, *Pod, error) {
	p, err := o.Job(ctx, recorded, name)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range ready {
		if err := f(p); err != nil {
			return nil, nil, err
		}
	}
	args, err := CommandLine(step)
	if err != nil {
		return nil, nil, err
	}
	p.Extra = append(o.tls(), o.options(step)...)
	run, err := p.Start(ctx, args)
	return run, p, err
}

// tls are the manager's own flags for a cluster with TLS.
func (o *Operator) tls() []string {
	if o.TLS.CA == "" {
		return nil
	}
	flags := []string{"--ca=" + o.TLS.CA}
	if o.TLS.Cert != "" {
		flags = append(flags, "--cert="+o.TLS.Cert, "--key="+o.TLS.Key)
	}
	return flags
}

// options are those of the CR that a step is of.
func (o *Operator) options(step string) []string {
	switch step {
	case "initialize":
		return nil
	case "execute":
		return o.BackupOptions
	}
	return o.RestoreOptions
}

// pdAddress is where the Service <cluster>-pd leads to.
func pdAddress(bed *testbed.Testbed, name cluster.Name) string {
	return bed.Nodes.Cluster(name).PD.Addrs()[0]
}

// CreateTarget makes the cluster that a user makes for a restore, and waits for its PD.
func (o *Operator) CreateTarget(ctx context.Context, name cluster.Name, stores int, change ...func(*kubetest.ClusterOptions)) error {
	opts := kubetest.ClusterOptions{
		Name: name, PD: 1, TiKV: stores, TiDB: 1, Version: "v8.5.0", SizeGiB: 100, RaftLogVolume: true, RecoveryMode: true,
		TLS: o.TLS.CA != "",
	}
	for _, f := range change {
		f(&opts)
	}
	if err := o.Bed.Kube.Put(kubetest.NewTidbCluster(opts)); err != nil {
		return err
	}
	return until(ctx, "PD of "+name.String(), func() bool { return o.Bed.Nodes.Cluster(name) != nil }, func() error { return nil })
}

// BeginRestoreVolumes starts br for the phase restore-volume.
func (o *Operator) BeginRestoreVolumes(ctx context.Context, name cluster.Name) (*Run, *Pod, error) {
	return o.begin(ctx, "job-restore-rst1", "restore-volume", name)
}

// BeginRestoreData starts br for the phase restore-data.
func (o *Operator) BeginRestoreData(ctx context.Context, name cluster.Name) (*Run, *Pod, error) {
	return o.begin(ctx, "job-restore-data-rst1", "restore-data", name)
}

// RestoreVolumes is the phase restore-volume: br makes the volumes, and the Operator reads the document that it wrote.
func (o *Operator) RestoreVolumes(ctx context.Context, name cluster.Name) (*Run, error) {
	run, p, err := o.BeginRestoreVolumes(ctx, name)
	if err == nil {
		err = run.Wait()
	}
	if err != nil {
		return run, err
	}
	doc, err := os.ReadFile(filepath.Join(p.Bin, "csb_restore.json"))
	if err != nil {
		return run, err
	}
	if err := o.Upload(ctx, "restoremeta", doc); err != nil {
		return run, err
	}
	return run, o.BindVolumes(ctx, name)
}

// BindVolumes makes PVs and claims of the uploaded document and lets TiKV start.
func (o *Operator) BindVolumes(ctx context.Context, name cluster.Name) error {
	doc, err := o.Download(ctx, "restoremeta")
	if err != nil {
		return err
	}
	if err := bindRestored(ctx, o.Bed, name, doc); err != nil {
		return err
	}
	tc := o.Bed.Kube.Get("tidbclusters", name.Namespace, name.Name)
	tc.SetAnnotations(map[string]string{"tidb.pingcap.com/tikv-volumes-ready": "true"})
	if err := o.Bed.Kube.Put(tc); err != nil {
		return err
	}
	return o.awaitStores(ctx, name)
}

// RestoreData is the phase restore-data.
func (o *Operator) RestoreData(ctx context.Context, name cluster.Name) (*Run, error) {
	run, _, err := o.BeginRestoreData(ctx, name)
	if err != nil {
		return nil, err
	}
	return run, run.Wait()
}

// Finish takes the cluster out of recovery mode, restarts TiKV, and waits until TiDB serves.
func (o *Operator) Finish(ctx context.Context, name cluster.Name) error {
	tc := o.Bed.Kube.Get("tidbclusters", name.Namespace, name.Name)
	unstructured.RemoveNestedField(tc.Object, "spec", "recoveryMode")
	tc.SetAnnotations(nil)
	if err := o.Bed.Kube.Put(tc); err != nil {
		return err
	}
	for _, p := range o.Bed.Kube.List("pods", name.Namespace) {
		labels := p.GetLabels()
		if labels["app.kubernetes.io/instance"] == name.Name && labels["app.kubernetes.io/component"] == "tikv" {
			if err := o.Bed.Kube.Remove(p); err != nil {
				return err
			}
		}
	}
	_, err := o.Bed.AwaitCluster(ctx, name)
	return err
}

// Restore is a whole Restore, with what the manager and the CR would show of it checked.
func (o *Operator) Restore(ctx context.Context, name cluster.Name, stores int, ts cluster.TS) error {
	if err := o.CreateTarget(ctx, name, stores); err != nil {
		return err
	}
	for _, step := range []func(context.Context, cluster.Name) (*Run, error){o.RestoreVolumes, o.RestoreData} {
		run, err := step(ctx, name)
		if err == nil {
			err = check(run, "EBS restore success", ts)
		}
		if err != nil {
			return err
		}
	}
	return o.Finish(ctx, name)
}

// operationStarted is what the manager's parser wants of the line: an id, and a time by RFC 3339.
var operationStarted = regexp.MustCompile(`^BR operation started"\] \[operation_id=[^\] ]+\] \[operation_started_at=\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)\] \[command="[^"]+"\]`)

// check checks what the manager takes from a run that ended with 0: the ts on the line of success, progress that only
// grows and ends at 100, and nothing on stderr, which it would show as an error.
func check(r *Run, successTag string, ts cluster.TS) error {
	var errs []error
	if got := r.ResolvedTS(successTag); got == 0 || got != uint64(ts) {
		errs = append(errs, fmt.Errorf("the success line has resolved_ts %d, not %d: %q", got, ts, r.Line(successTag)))
	}
	if line := r.Line("BR operation started"); !operationStarted.MatchString(line) {
		errs = append(errs, fmt.Errorf("status.brOperations would have nothing of %q", line))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.progress); n == 0 || r.progress[n-1] != 100 || !slices.IsSorted(r.progress) || r.progress[0] < 0 {
		errs = append(errs, fmt.Errorf("the progress file showed %v", r.progress))
	}
	if r.stderr != "" {
		errs = append(errs, fmt.Errorf("stderr has %q", r.stderr))
	}
	return errors.Join(errs...)
}
