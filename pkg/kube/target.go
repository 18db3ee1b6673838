package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/kube/typed"
)

// target is what a restore needs of a generation of TiDB Operator. Its methods are those of Restorer that depend on it.
type target interface {
	permissions() []permission
	// api is the group and version of its objects, and version what its users call it.
	api() (groupVersion, version string)
	checkRestored(source json.RawMessage, to Target, volumes []RestoredVolume) (Checked, error)
	manifest(source json.RawMessage, to Target, volumes []RestoredVolume) ([]byte, error)
	nodeRules(
		ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, exists bool,
	) ([]podnodes.Rules, error)
	dryRun(ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, exists bool) error
	createCluster(ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume) error
	startTiKV(ctx context.Context, name cluster.Name, volumes []RestoredVolume) error
	leaveRecovery(ctx context.Context, name cluster.Name) error
	startTiDB(ctx context.Context, name cluster.Name) error
	tidbPods(ctx context.Context, name cluster.Name) ([]string, error)
	waiting(ctx context.Context, name cluster.Name) ([]string, error)
	crashLoops(ctx context.Context, name cluster.Name, restarts int) ([]CrashLoop, error)
	bindVolume(ctx context.Context, v RestoredVolume) error
	// belongs selects what belongs to the cluster of an object.
	belongs(o *unstructured.Unstructured) metav1.ListOptions
	// claimedFor reports whether a claim was made for the cluster of this very object, and so is not older than it.
	claimedFor(o *unstructured.Unstructured, claim *corev1.PersistentVolumeClaim) bool
	// serves returns why a cluster that a restore made may serve, runsTiDB whether only TiDB shows it, and mayUse why
	// one that the run did not make may use the run's claims; "" if not.
	serves(o *unstructured.Unstructured) string
	runsTiDB(o *unstructured.Unstructured) string
	mayUse(o *unstructured.Unstructured) string
	remover(name cluster.Name, run cluster.RunID) remover
}

// remover deletes a target of a run, in as many tries as it takes. Each try gets as far as it can, and is Limited while
// something that must go first is still there.
type remover interface {
	// deleteThis deletes the object that was found, as it is, and whatever belongs to it.
	deleteThis(ctx context.Context, found *unstructured.Unstructured) error
	// deleteRest deletes what is left if there is no such object.
	deleteRest(ctx context.Context) error
}

// targetFor returns the generation that made a source; TiDB Operator 1.x without one.
func targetFor(c *Client, source json.RawMessage) target {
	if _, ok := operator2.Recorded(source); ok {
		return generation2{c}
	}
	return generation1{c}
}

func (c generation1) api() (groupVersion, version string) { return operator1.GroupVersion, "1.x" }

func (g generation2) api() (groupVersion, version string) { return operator2.GroupVersion, "2.x" }

// checkInstalled rejects a Kubernetes cluster without the Operator that makes the target.
func (c *Client) checkInstalled(ctx context.Context, of target, namespace string) error {
	const op = "check operator"
	api, version := of.api()
	err := c.served(ctx, api)
	if kubeerr.NotServed(err) {
		return failure.New(failure.Unready, op, "namespace "+namespace,
			"the target is a cluster of TiDB Operator %s, and this Kubernetes cluster does not serve %s", version, api).
			WithHint("install TiDB Operator %s with its CustomResourceDefinitions; without --operator, a restore "+
				"takes the one that is installed", version)
	}
	return failure.Annotate(err, op, "namespace "+namespace)
}

// OperatorOf implements Restorer.
func (c *Client) OperatorOf(ctx context.Context, name cluster.Name, source string) (chosen, why string, err error) {
	var installed []string
	for i, g := range c.generations() {
		o, err := g.get(typed.Optional(ctx), name)
		switch of := strconv.Itoa(i + 1); {
		case kubeerr.NotServed(err):
		case o != nil:
			return of, "its cluster " + name.String() + " exists", nil
		case err != nil && !failure.Is(err, failure.Denied): // what a restore is not allowed is found later
			return "", "", err
		default:
			installed = append(installed, of)
		}
	}
	if len(installed) == 1 {
		return installed[0], "only that Operator is installed here", nil
	}
	return source, "", nil
}

// locate returns the object that is named as the cluster and its generation; none if neither installed one has it.
func (c *Client) locate(ctx context.Context, name cluster.Name) (target, *unstructured.Unstructured, error) {
	var none error
	missing := 0
	for _, g := range c.generations() {
		o, err := g.get(ctx, name)
		switch {
		case kubeerr.NotServed(err):
			none, missing = cmp.Or(none, err), missing+1
		case err != nil:
			return nil, nil, err
		case o != nil:
			return g, o, nil
		}
	}
	if missing == len(c.generations()) {
		return nil, nil, none
	}
	return nil, nil, nil
}

// targetOf returns the generation of the cluster of this name; TiDB Operator 1.x of one that is not there.
func (c *Client) targetOf(ctx context.Context, name cluster.Name) (target, error) {
	of, _, err := c.locate(ctx, name)
	if of == nil {
		of = generation1{c}
	}
	return of, err
}

// TargetManifest returns the objects that CreateCluster creates, as YAML without the run's mark.
func TargetManifest(source json.RawMessage, to Target, volumes []RestoredVolume) ([]byte, error) {
	return targetFor(nil, source).manifest(source, to, volumes)
}

func (generation1) manifest(source json.RawMessage, to Target, _ []RestoredVolume) ([]byte, error) {
	return operator1.TargetManifest(source, to)
}

// DryRun implements Restorer.
func (c *Client) DryRun(
	ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, exists bool,
) error {
	return targetFor(c, source).dryRun(ctx, source, to, volumes, exists)
}

// CreateCluster implements Restorer.
func (c *Client) CreateCluster(
	ctx context.Context, source json.RawMessage, to Target, volumes ...RestoredVolume,
) error {
	return targetFor(c, source).createCluster(ctx, source, to, volumes)
}

// StartTiKV implements Restorer.
func (c *Client) StartTiKV(ctx context.Context, name cluster.Name, volumes ...RestoredVolume) error {
	of, err := c.targetOf(ctx, name)
	if err != nil {
		return err
	}
	return of.startTiKV(ctx, name, volumes)
}

// LeaveRecovery implements Restorer.
func (c *Client) LeaveRecovery(ctx context.Context, name cluster.Name) error {
	of, err := c.targetOf(ctx, name)
	if err != nil {
		return err
	}
	return of.leaveRecovery(ctx, name)
}

// StartTiDB implements Restorer.
func (c *Client) StartTiDB(ctx context.Context, name cluster.Name) error {
	of, err := c.targetOf(ctx, name)
	if err != nil {
		return err
	}
	return of.startTiDB(ctx, name)
}

// TiDBPods implements Restorer.
func (c *Client) TiDBPods(ctx context.Context, name cluster.Name) ([]string, error) {
	of, err := c.targetOf(ctx, name)
	if err != nil {
		return nil, err
	}
	return of.tidbPods(ctx, name)
}

// Waiting implements Restorer.
func (c *Client) Waiting(ctx context.Context, name cluster.Name) ([]string, error) {
	of, err := c.targetOf(ctx, name)
	if err != nil {
		return nil, err
	}
	return of.waiting(ctx, name)
}

// CrashLoops implements Restorer.
func (c *Client) CrashLoops(ctx context.Context, name cluster.Name, restarts int) ([]CrashLoop, error) {
	of, err := c.targetOf(ctx, name)
	if err != nil {
		return nil, err
	}
	return of.crashLoops(ctx, name, restarts)
}

// BindVolume implements Restorer.
func (c *Client) BindVolume(ctx context.Context, v RestoredVolume) error {
	var of target = generation1{c}
	if v.of2() {
		of = generation2{c}
	}
	return of.bindVolume(ctx, v)
}

// of2 reports whether the volume is of a cluster of TiDB Operator 2.x.
func (v *RestoredVolume) of2() bool {
	var claim struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	return json.Unmarshal(v.Claim, &claim) == nil && operator2.IsClaim(&claim.Metadata)
}
