package command

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/wait"
)

// About how many requests to the API server a backup and a restore make.
const (
	backupRequests  = 30
	restoreRequests = 120
)

// kubeVictim is the program whose API server fails. It is the round's driver.
type kubeVictim struct {
	path, dir string
	rng       *rand.Rand
	bed       *testbed.Testbed
	gateway   *kubetest.Gateway
	store     objstore.Store

	met    []string
	failed int
	output shipped.Output
}

func newKubeVictim(path, dir string, seed int64) *kubeVictim {
	return &kubeVictim{path: path, dir: dir, rng: rand.New(rand.NewPCG(uint64(seed), 17))}
}

func (v *kubeVictim) close() {
	if v.gateway != nil {
		v.gateway.Close()
	}
}

// Backup implements round.Driver.
func (v *kubeVictim) Backup(ctx context.Context, bed *testbed.Testbed) (cluster.TS, error) {
	v.bed = bed
	var err error
	if v.gateway, err = kubetest.OpenGateway(ctx, bed.Kubeconfig(), v.dir); err != nil {
		return 0, err
	}
	if v.store, err = objstore.Open(ctx, round.Storage, objstore.Config{Region: testbed.Region, Endpoint: bed.AWS()}); err != nil {
		return 0, err
	}
	err = v.twice(ctx, backupRequests, v.unheld, "backup", round.Source().String(), "--name", round.BackupID, "--lease", soakLease.String(), "--steady", "0s", "--timeout", "30s")
	if err != nil {
		return 0, err
	}
	m, err := catalog.Catalog{Store: v.store}.Load(ctx, round.BackupID)
	if err != nil {
		return 0, err
	}
	return m.BackupTS, nil
}

// Restore implements round.Driver.
func (v *kubeVictim) Restore(ctx context.Context, bed *testbed.Testbed) error {
	err := v.twice(ctx, restoreRequests, v.resumable, "restore", round.BackupID, "--to", round.Target().String(),
		"--volume-type", "gp3", "--volume-iops", "7000", "--volume-throughput", "400", "--timeout", "30s")
	if err == nil {
		_, err = bed.AwaitCluster(ctx, round.Target())
	}
	if err != nil {
		return err
	}
	return v.nothingElse(ctx)
}

// twice runs a command in trouble and, if it fails, again without; left checks what the failed one left.
func (v *kubeVictim) twice(ctx context.Context, requests int, left func(context.Context) error, args ...string) error {
	drawn := v.draw(requests)
	for _, t := range drawn {
		fmt.Fprintf(&v.output, "trouble: %s\n", t)
	}
	v.gateway.Trouble(drawn...)
	before := v.output.String()
	code, err := v.run(ctx, args...)
	met := v.gateway.Calm()
	if err != nil {
		return err
	}
	v.met = append(v.met, fmt.Sprintf("%s met %d (%s) and ended with %d", args[0], len(met), strings.Join(met, ", "), code))
	if code == 0 {
		return nil
	}
	if code == conflict {
		return fmt.Errorf("tisnap %s takes an object that changed meanwhile for another's", args[0])
	}
	v.failed++
	if err := errors.Join(explained(strings.TrimPrefix(v.output.String(), before), code), left(ctx)); err != nil {
		return err
	}
	return v.again(ctx, args...)
}

// again runs the command once the faults are over. If an earlier one has to be undone or finished first, the refusal
// names the command that does, and that is run as a user would.
func (v *kubeVictim) again(ctx context.Context, args ...string) error {
	before := v.output.String()
	code, err := v.run(ctx, args...)
	if err != nil || code == 0 {
		return err
	}
	hint := strings.TrimPrefix(v.output.String(), before)
	if abort := abortHint().FindStringSubmatch(hint); abort != nil {
		if err := v.right(ctx, append(strings.Fields(abort[1]), "--yes")...); err != nil {
			return err
		}
		return v.right(ctx, args...)
	}
	if finish := finishHint().FindStringSubmatch(hint); finish != nil {
		return v.right(ctx, strings.Fields(finish[1])...)
	}
	return fmt.Errorf("tisnap %s ended with %d after the faults were over", args[0], code)
}

// right runs a command that has to end with 0.
func (v *kubeVictim) right(ctx context.Context, args ...string) error {
	code, err := v.run(ctx, args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("tisnap %s ended with %d after the faults were over", args[0], code)
	}
	return err
}

func abortHint() *regexp.Regexp {
	return regexp.MustCompile(`hint: if that run has ended, delete them with: tisnap (restore abort \S+)`)
}

func finishHint() *regexp.Regexp {
	return regexp.MustCompile(`hint: finish it with: tisnap (resolve \S+ --backup [^\s;]+)`)
}

// conflict is the exit code for what someone else holds or has made, and there is no one else here.
const conflict = 6

// long is how long trouble lasts that the program waits out, in a round in which the last one does not pass soon.
const long = 20 * time.Second

// draw makes three troubles. In one of four rounds the last one does not pass soon: a refusal stays until the program has
// ended, all else is long.
func (v *kubeVictim) draw(requests int) []kubetest.Trouble {
	kinds := kubetest.Troubles()
	var all []kubetest.Trouble
	for range 3 {
		t := kubetest.Trouble{Kind: kinds[v.rng.IntN(len(kinds))], Nth: 1 + v.rng.IntN(requests)}
		if v.rng.IntN(2) == 0 || t.Kind == kubetest.TroubleForbidden || t.Kind == kubetest.TroubleStale {
			t.For = time.Duration(500+v.rng.IntN(1000)) * time.Millisecond
		}
		if t.Kind == kubetest.TroubleConflict {
			t.Nth = 1 + v.rng.IntN(3) // there are few writes
		}
		all = append(all, t)
	}
	if v.rng.IntN(4) > 0 {
		return all
	}
	switch last := &all[len(all)-1]; last.Kind {
	case kubetest.TroubleUnauthorized, kubetest.TroubleForbidden:
		last.For = -1
	case kubetest.TroubleConflict, kubetest.TroubleBusy, kubetest.TroubleBusyNow, kubetest.TroubleInternal, kubetest.TroubleLost, kubetest.TroubleCut:
		last.For = long
	case kubetest.TroubleStale, kubetest.TroubleRestart, kubetest.TroubleRotated:
	}
	return all
}

// explained requires that a run that failed reports why, and blames Kubernetes, which alone failed.
func explained(output string, code int) error {
	_, failed, found := strings.Cut(output, "\nerror: ")
	if code < 0 || !found || !aboutKubernetes().MatchString(failed) {
		return fmt.Errorf("it ended with %d without a clear error", code)
	}
	return nil
}

func aboutKubernetes() *regexp.Regexp {
	return regexp.MustCompile(`(?i)tidbcluster|(read|create) cluster|(pd|tikv|tidb)group|create tikv|end the pause|persistentvolume|pod|node|claim|namespace|storageclass|API server|unauthorized|kubernetes`)
}

// unheld requires that a backup that failed left nothing held, no snapshot and no sealed backup.
func (v *kubeVictim) unheld(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, soakLease+30*time.Second)
	defer cancel()
	c := v.bed.Nodes.Cluster(round.Source())
	for len(c.Held()) > 0 {
		if wait.For(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("it is held longer than one lease: %v", c.Held())
		}
	}
	if all := v.bed.EC2.Snapshots(); len(all) > 0 {
		return fmt.Errorf("%d snapshots are left", len(all))
	}
	return nil
}

// resumable requires that a restore that failed left nothing in EC2, or names the command that resumes it.
func (v *kubeVictim) resumable(ctx context.Context) error {
	err := leak.Balance(ctx, v.bed, v.store)
	if err != nil && !strings.Contains(v.output.String(), "tisnap restore ") {
		return fmt.Errorf("the restore does not name the command that resumes it, and %w", err)
	}
	return nil
}

// nothingElse proves, after a gc, that EC2 has what is named and nothing else.
func (v *kubeVictim) nothingElse(ctx context.Context) error {
	if err := v.right(ctx, "gc", "--yes", "--older-than", "0s", "--delete-rate", "100"); err != nil {
		return err
	}
	return leak.Await(ctx, v.bed, v.store, time.Minute)
}

// run runs the program in a process of its own, with the gateway as its API server.
func (v *kubeVictim) run(ctx context.Context, args ...string) (int, error) {
	args = append(args, "--storage", round.Storage, "--progress", "plain")
	fmt.Fprintf(&v.output, "$ tisnap %s\n", join(args))
	cmd := exec.CommandContext(ctx, v.path, args...) //nolint:gosec // the program that the flag names
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Env = append(append(os.Environ(), v.bed.Env()...), "KUBECONFIG="+v.gateway.Kubeconfig())
	cmd.Stdout, cmd.Stderr = &v.output, &v.output
	err := cmd.Run()
	if cmd.ProcessState != nil {
		fmt.Fprintf(&v.output, "(ended with %d)\n", cmd.ProcessState.ExitCode())
		return cmd.ProcessState.ExitCode(), ctx.Err()
	}
	return 0, err
}
