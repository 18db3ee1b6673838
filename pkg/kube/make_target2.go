package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/parallel"
)

const createCluster2 = "create cluster"

// makeTarget2 makes a target's objects.
func makeTarget2(source json.RawMessage, to Target, volumes []RestoredVolume) (*operator2.Made, error) {
	recorded, _ := operator2.Recorded(source)
	target := operator2.Target{Name: to.Name, Run: to.Run}
	if m := to.Changes.Manifest; m != nil {
		own, ok := operator2.Recorded(m)
		if !ok {
			return nil, failure.New(failure.Usage, createCluster2, to.Name.String(),
				"the manifest has a TidbCluster, and the backup's cluster is of TiDB Operator 2.x").
				WithHint("use a file with a Cluster and its groups, such as one written by --print-manifest")
		}
		target.Changes.Manifest = own
	}
	target.Changes.Patches, target.Changes.Smallest = to.Changes.Patches, to.Changes.Smallest
	index := map[string]int{}
	for _, v := range volumes {
		var claim corev1.PersistentVolumeClaim
		if err := json.Unmarshal(v.Claim, &claim); err != nil {
			return nil, failure.Wrap(err, failure.Corrupt, createCluster2, to.Name.String())
		}
		of, err := operator2.StoreOf(to.Name, &claim.ObjectMeta)
		if err != nil {
			return nil, err
		}
		i, seen := index[of.Source]
		if !seen {
			i = len(target.Stores)
			index[of.Source] = i
			target.Stores = append(target.Stores, operator2.TargetStore{
				Pod: of.Source, Ordinal: v.Ordinal, Zone: v.Zone, Volumes: map[string]operator2.TargetVolume{},
			})
		}
		target.Stores[i].Volumes[of.Volume] = operator2.TargetVolume{PV: restoredVolumeName(v), SizeGiB: v.SizeGiB}
	}
	made, err := operator2.Make(recorded, target)
	if err != nil {
		return nil, err
	}
	return made, checkConfigs(made.Configs)
}

// checkConfigs rejects configurations with which TiKV could not open its data.
func checkConfigs(configs []operator2.Config) error {
	const op = "compare cluster"
	for _, c := range configs {
		was, err := operator1.DataConfig(c.Source)
		if err != nil {
			return failure.Wrap(err, failure.Corrupt, op, c.Group)
		}
		is, err := operator1.DataConfig(c.Target)
		if err != nil {
			return failure.Wrap(err, failure.Usage, op, c.Group)
		}
		if !maps.Equal(was, is) {
			return failure.New(failure.Usage, op, c.Group,
				"its stores could not open the data: its configuration has %v, and the backup has %v", is, was).
				WithHint("leave where and how TiKV stores its data as it is")
		}
	}
	return nil
}

// ReadManifest reads a user's objects of a cluster of either generation from a YAML or JSON text. None, or some of
// both, is Usage.
func ReadManifest(text []byte, file string) (json.RawMessage, error) {
	list, err := operator2.ReadManifest(text, file)
	if err != nil {
		return nil, err
	}
	tc, err := operator1.ReadManifest(text, file)
	switch {
	case list == nil:
		return tc, err
	case err == nil:
		return nil, failure.New(failure.Usage, "read manifest", file, "it has a TidbCluster and a Cluster").
			WithHint("use a file with only one of them")
	}
	return list, nil
}

// all lists the objects of the Operator that are made, except for those that come last.
func allMade(made *operator2.Made) []*unstructured.Unstructured {
	all := append([]*unstructured.Unstructured{made.Cluster}, made.Early...)
	for _, s := range made.Stores {
		all = append(all, s.TiKV)
	}
	return all
}

func (generation2) checkRestored(source json.RawMessage, to Target, volumes []RestoredVolume) (Checked, error) {
	made, err := makeTarget2(source, to, volumes)
	if err != nil {
		return Checked{}, err
	}
	for _, o := range append(allMade(made), made.Late...) {
		if err := checkSize(o.Object, o.GetName()); err != nil {
			return Checked{}, err
		}
	}
	names, err := namesOf(volumes)
	return Checked{Names: names, Dropped: made.Dropped}, err
}

func (g generation2) resource(o *unstructured.Unstructured) dynamic.ResourceInterface {
	return g.dynamic.Resource(operator2.ResourceOf(o.GetKind())).Namespace(o.GetNamespace())
}

// createCluster creates the Cluster, paused, then what belongs to it, and lets the Operator act when all of it is
// there: the Operator would make stores of its own beside those that are still missing. TiKV's pods wait for their
// volumes. Objects of an earlier cluster of the same name are a Conflict: the Operator would take them for the
// target's.
func (g generation2) createCluster(
	ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume,
) error {
	made, err := makeTarget2(source, to, volumes)
	if err != nil {
		return err
	}
	found, err := g.get(ctx, to.Name)
	if err != nil {
		return err
	}
	if found == nil {
		if err := g.checkLeftovers(ctx, to); err != nil {
			return err
		}
	}
	if found, err = g.ensure(ctx, made.Cluster, to.Run); err != nil {
		return err
	}
	if !operator2.Paused(found) {
		return nil // the last step was done
	}
	groups := map[string]*unstructured.Unstructured{}
	for _, o := range made.Early {
		if groups[o.GetName()], err = g.ensure(ctx, o, to.Run); err != nil {
			return err
		}
	}
	err = parallel.Each(ctx, parallelRequests, made.Stores,
		func(ctx context.Context, _ int, s operator2.MadeStore) error {
			return g.createStore(ctx, s, groups[s.Group], to.Run)
		})
	if err != nil {
		return err
	}
	return g.update(ctx, to.Name, "end the pause", operator2.EndPause)
}

// createStore creates an instance of TiKV and its claims.
func (g generation2) createStore(
	ctx context.Context, s operator2.MadeStore, group *unstructured.Unstructured, run cluster.RunID,
) error {
	s.TiKV.SetOwnerReferences(ownedBy(group))
	instance, err := g.ensure(ctx, s.TiKV, run)
	if err != nil {
		return err
	}
	for _, claim := range s.Claims {
		claim.OwnerReferences = ownedBy(instance)
		if _, err := g.ensureClaim(ctx, claim, RestoredVolume{Run: run}); err != nil {
			return err
		}
	}
	return nil
}

// ownedBy is the reference to a controlling owner, without which the Operator fails on an instance.
func ownedBy(o *unstructured.Unstructured) []metav1.OwnerReference {
	isController := true
	return []metav1.OwnerReference{{
		APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID(), Controller: &isController,
	}}
}

// ensure creates an object, or returns the one that the run has made before.
func (g generation2) ensure(
	ctx context.Context, o *unstructured.Unstructured, run cluster.RunID,
) (*unstructured.Unstructured, error) {
	op, target := "create "+o.GetKind(), o.GetNamespace()+"/"+o.GetName()
	made, err := create(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return g.resource(o).Create(ctx, o, metav1.CreateOptions{})
	})
	if !apierrors.IsAlreadyExists(err) {
		return made, kubeerr.Wrap(err, op, target)
	}
	if made, err = g.resource(o).Get(ctx, o.GetName(), metav1.GetOptions{}); err != nil {
		return nil, kubeerr.Wrap(err, op, target)
	}
	return made, runmark.CheckMade(made, run, op, target)
}

// update reads, changes and writes the Cluster, and retries on conflicts. change returns false if there is nothing to
// write.
func (g generation2) update(
	ctx context.Context, name cluster.Name, op string, change func(*unstructured.Unstructured) bool,
) error {
	return untilWritten(ctx, op, name.String(), func() error {
		o, err := g.existing(ctx, name)
		if err != nil || !change(o) {
			return err
		}
		_, err = g.resource(o).Update(ctx, o, metav1.UpdateOptions{})
		return err
	})
}

// existing reads the Cluster; a missing one is NotFound.
func (g generation2) existing(ctx context.Context, name cluster.Name) (*unstructured.Unstructured, error) {
	o, err := g.get(ctx, name)
	if err == nil && o == nil {
		err = g.noCluster(ctx, name)
	}
	return o, err
}

// checkLeftovers rejects a name that still has claims, groups or stores. The run itself has not made any yet.
func (g generation2) checkLeftovers(ctx context.Context, to Target) error {
	if err := g.Client.checkLeftovers(ctx, to.Name); err != nil {
		return err
	}
	all, err := g.objects(ctx, to.Name)
	if err != nil {
		return err
	}
	for _, o := range append(all.Groups, all.TiKVs...) {
		return failure.New(failure.Conflict, createCluster2, to.Name.String(), "%s %s names it as its cluster",
			o.GetKind(), o.GetName()).
			WithHint("choose another target name, or delete it: kubectl -n %s delete %s %s", to.Name.Namespace,
				operator2.ResourceOf(o.GetKind()).GroupResource(), o.GetName())
	}
	return nil
}

// objects reads the groups of a cluster, and its instances of TiKV.
func (g generation2) objects(ctx context.Context, name cluster.Name) (operator2.Objects, error) {
	var all operator2.Objects
	for _, resource := range operator2.Groups() {
		found, err := g.list(ctx, resource, name.Namespace, metav1.ListOptions{})
		if kubeerr.NotServed(err) {
			continue // of a component that this version of the Operator does not know
		}
		if err != nil {
			return all, failure.Annotate(err, readCluster, name.String())
		}
		all.Groups = append(all.Groups, slices.DeleteFunc(found, func(o unstructured.Unstructured) bool {
			return !operator2.BelongsTo(name.Name, &o)
		})...)
	}
	var err error
	all.TiKVs, err = g.list(ctx, operator2.TiKVs, name.Namespace, operator2.TiKVOf(name.Name))
	return all, failure.Annotate(err, readCluster, name.String())
}

func (generation2) manifest(source json.RawMessage, to Target, volumes []RestoredVolume) ([]byte, error) {
	made, err := makeTarget2(source, to, volumes)
	if err != nil {
		return nil, err
	}
	var text []byte
	for i, o := range append(allMade(made), made.Late...) {
		document, err := operator2.Document(o)
		if err != nil {
			return nil, failure.Wrap(err, failure.Corrupt, "print cluster", to.Name.String())
		}
		if i > 0 {
			text = fmt.Append(text, "---\n")
		}
		text = append(text, document...)
	}
	return text, nil
}
