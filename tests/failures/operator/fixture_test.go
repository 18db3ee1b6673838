package operator_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pingcap/log"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/tests/operator"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	// client-go of the workload logs through this global to stdout.
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{Level: zap.NewAtomicLevel()})
	goleak.VerifyTestMain(m, goleak.Cleanup(shipped.Exit),
		// client-go and its pools keep these after Close, as its own tests tolerate.
		goleak.IgnoreTopFunction("google.golang.org/grpc.(*ClientConn).WaitForStateChange"),
		goleak.IgnoreAnyFunction("github.com/tikv/client-go/v2/internal/client.(*batchCommandsClient).recreateStreamingClient"),
		goleak.IgnoreTopFunction("github.com/klauspost/compress/zstd.(*blockDec).startDecoder"),
	)
}

const patience = 5 * time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// place is a testbed with a Backup that is complete, whose cluster is gone, and an empty cluster for its Restore.
type place struct {
	*operator.Operator

	faults *fault.Plan
	target cluster.Name
}

func newPlace(t *testing.T) *place {
	t.Helper()
	program, err := shipped.BR()
	require.NoError(t, err)
	p := &place{faults: &fault.Plan{}, target: cluster.Name{Namespace: "tidb", Name: "copy"}}
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{
		Dir: t.TempDir(), Faults: p.faults, Scale: 10, TiKV: tikvtest.Options{RecoverCheckInterval: 200 * time.Millisecond},
	})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	p.Operator = &operator.Operator{Bed: bed, Dir: t.TempDir(), Program: program}
	source := cluster.Name{Namespace: "tidb", Name: "prod"}
	_, err = bed.CreateCluster(within(t), source, 3)
	require.NoError(t, err)
	_, err = p.Backup(within(t), source)
	require.NoError(t, err)
	_, err = bed.DestroyCluster(within(t), source)
	require.NoError(t, err)
	require.NoError(t, p.CreateTarget(within(t), p.target, 3))
	return p
}

// restored lists the volumes that restores made.
func (p *place) restored() []ebs.Volume {
	return slices.DeleteFunc(p.Bed.EC2.Volumes(), func(v ebs.Volume) bool { return v.Tags["TiDBCluster-BR"] != "new" })
}

// refused runs a half of the restore and requires that it ends with an error that has these texts, and that it changed
// nothing anywhere.
func (p *place) refused(t *testing.T, half func(context.Context, cluster.Name) (*operator.Run, error), texts ...string) {
	t.Helper()
	before := p.Bed.MutatingCalls()
	run, err := half(within(t), p.target)
	for _, text := range texts {
		require.ErrorContains(t, err, text)
	}
	require.False(t, run.Printed("EBS restore success"))
	require.Equal(t, before, p.Bed.MutatingCalls(), "it changed something")
}

// changed puts another content into an object of the storage for the time of a function.
func (p *place) changed(t *testing.T, key string, change func([]byte) []byte, during func()) {
	t.Helper()
	body, err := p.Download(within(t), key)
	require.NoError(t, err)
	store, err := p.Storage(within(t))
	require.NoError(t, err)
	require.NoError(t, store.Delete(within(t), key))
	if other := change(bytes.Clone(body)); other != nil {
		require.NoError(t, p.Upload(within(t), key, other))
	}
	during()
	require.NoError(t, p.Upload(within(t), key, body))
}

// key is the one object of the storage whose name ends like that.
func (p *place) key(t *testing.T, name string) string {
	t.Helper()
	store, err := p.Storage(within(t))
	require.NoError(t, err)
	objects, err := store.List(within(t), "backups/")
	require.NoError(t, err)
	objects = slices.DeleteFunc(objects, func(o objstore.Object) bool { return filepath.Base(o.Key) != name })
	require.Len(t, objects, 1)
	return objects[0].Key
}

// killed runs a half of the restore and kills its process at a call.
func (p *place) killed(t *testing.T, rule fault.Rule, begin func(context.Context, cluster.Name) (*operator.Run, *operator.Pod, error)) {
	t.Helper()
	p.at(t, rule, begin, func(r *operator.Run) { _ = r.Kill() }) // it may have ended at this moment
}

// at runs a half of the restore, which has to fail, and does something to it at a call.
func (p *place) at(t *testing.T, rule fault.Rule, begin func(context.Context, cluster.Name) (*operator.Run, *operator.Pod, error), do func(*operator.Run)) *operator.Pod {
	t.Helper()
	started := make(chan *operator.Run, 1)
	rule.Position, rule.Do = fault.Slow, func() {
		r := <-started
		started <- r
		do(r)
	}
	require.NoError(t, p.faults.Add(rule))
	run, pod, err := begin(within(t), p.target)
	require.NoError(t, err)
	started <- run
	require.Error(t, run.Wait())
	require.Empty(t, p.faults.Unreached())
	require.False(t, run.Printed("EBS restore success"))
	return pod
}

// noDocument requires that the pod has nothing that the manager could take for restored volumes.
func noDocument(t *testing.T, pod *operator.Pod) {
	t.Helper()
	files, err := os.ReadDir(pod.Bin)
	require.NoError(t, err)
	require.Len(t, files, 1, "br alone is there: %v", files)
}

// gc runs tisnap gc on the storage of the Backup and returns what it printed.
func (p *place) gc(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	code := cli.Run(within(t), []string{
		"gc", "--yes", "--older-than", "0s", "--storage", fmt.Sprintf("s3://%s/%s", operator.Bucket, operator.Prefix),
		"--endpoint-url", p.Bed.AWS(), "--region", testbed.Region, "--kubeconfig", p.Bed.Kubeconfig(), "--progress", "plain",
	}, cli.Streams{Out: &out, Err: &out}, cli.Version{Version: "test"})
	require.Zero(t, code, out.String())
	return out.String()
}
