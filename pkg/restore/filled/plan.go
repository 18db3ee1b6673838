package filled

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// Zones is which of the target's zones the user chose; see volumes.Options.
type Zones struct {
	All   cluster.Zone
	Pairs []volumes.ZonePair
}

// NodeRules returns what the pod of each volume of a plan will ask of its node.
type NodeRules func(volumes.Plan) ([]podnodes.Rules, error)

// Plan plans the volumes, in zones of the target where their pods may run, by its StorageClasses, and checks these. It
// changes nothing. A resumed run keeps the zones that it began with, and refuses other classes.
func (m *Maker) Plan(
	ctx context.Context, backup *manifest.Manifest, chosen Zones, pods NodeRules,
) (volumes.Plan, error) {
	plan, err := volumes.PlanClaims(backup, nil)
	if err != nil {
		return plan, err
	}
	plan.DataBytes, plan.LargestBytes = m.source.Bytes()
	rules, err := pods(plan)
	if err != nil {
		return plan, err
	}
	found, err := m.kube.Zones(ctx, append([]podnodes.Rules{m.fill.Options.Pod.Rules()}, rules...)...)
	if err != nil {
		return plan, err
	}
	classes, err := m.classesOf(ctx, plan.Volumes, len(found[0]))
	if err != nil {
		return plan, err
	}
	zones := map[cluster.StoreID]cluster.Zone{}
	if m.earlier != nil {
		maps.Copy(zones, m.earlier.Zones)
	} else if zones, err = choose(plan.Volumes, chosen, classes, found[0], tikv{rules, found[1:]}); err != nil {
		return plan, err
	}
	byRole := map[string]string{}
	m.drivers, m.fill.Options.Beside = map[string]string{}, map[uint64]podnodes.Rules{}
	for i := range plan.Volumes {
		v, of := &plan.Volumes[i], classes[i]
		v.Zone = zones[v.Store]
		if was := byRole[string(v.Role)]; was != "" && was != of.name {
			return plan, failure.New(failure.Unready, "plan volumes", string(v.Role),
				"the source's volumes of this role are of the StorageClasses %s and %s", was, of.name).
				WithHint("name one for all by --storage-class")
		}
		byRole[string(v.Role)], m.drivers[string(v.Role)] = of.name, of.driver
		m.fill.Options.Beside[uint64(v.Store)] = rules[i]
		o := &m.fill.Options
		v.Filled = &kube.FilledClaim{Driver: of.driver, Class: of.name, Claim: blockvolume.Claim{
			Namespace: o.Namespace, Name: blockvolume.NameOf(o.Run, uint64(v.Store), string(v.Role)), Run: o.Run,
		}}
	}
	m.fill.Options.Classes = byRole
	m.fill.Options.Zones = map[uint64]cluster.Zone{}
	for store, zone := range zones {
		m.fill.Options.Zones[uint64(store)] = zone
	}
	return plan, nil
}

// class is a StorageClass.
type class struct {
	name, driver string
	zones        []cluster.Zone // in which it may make volumes; nil is all
}

// classesOf returns the StorageClass of each volume.
func (m *Maker) classesOf(ctx context.Context, planned []volumes.Volume, zones int) ([]class, error) {
	known := map[string]class{}
	m.classes = map[string]journal.StorageClass{}
	out := make([]class, len(planned))
	for i, v := range planned {
		name, err := kube.ClassOf(v.Claim)
		if err != nil {
			return nil, failure.Annotate(err, "check storage class", "store "+v.Store.String())
		}
		if _, is := known[name]; !is {
			if known[name], err = m.class(ctx, name, zones); err != nil {
				return nil, err
			}
		}
		out[i] = known[name]
	}
	return out, nil
}

// allowed are those of the zones in which all classes may make volumes.
func allowed(zones []cluster.Zone, classes []class) ([]cluster.Zone, error) {
	for _, of := range classes {
		if of.zones == nil || len(zones) == 0 {
			continue
		}
		both := slices.DeleteFunc(slices.Clone(zones), func(z cluster.Zone) bool {
			return !slices.Contains(of.zones, z)
		})
		if len(both) == 0 {
			return nil, failure.New(failure.Unready, "check storage class", of.name,
				"its volumes may only be in the zones %v, and the nodes are in %v", of.zones, zones).
				WithHint("name one of the nodes' zones by --storage-class, or other nodes by --worker-node-selector")
		}
		zones = both
	}
	return zones, nil
}

// class returns a StorageClass, which makes volumes on demand, and where its pod is. A resumed run looks for the one
// that it began with, although another one may be the default by now.
func (m *Maker) class(ctx context.Context, name string, zones int) (class, error) {
	const op = "check storage class"
	var was journal.StorageClass
	if m.earlier != nil {
		was = m.earlier.Classes[name]
	}
	found, err := m.fill.Claims.Class(ctx, cmp.Or(was.Name, name))
	switch {
	case failure.Is(err, failure.NotFound) && was.Name != "":
		return class{}, failure.New(failure.Conflict, op, was.Name, "someone has deleted it since run %s began with it",
			m.owner.Run).WithHint("%s", m.sameAgain())
	case failure.Is(err, failure.NotFound):
		return class{}, failure.New(failure.Unready, op, name, "this Kubernetes cluster does not have it, and the "+
			"source's volumes are of it").WithHint("name one that is here by --storage-class: kubectl get storageclass")
	case err != nil:
		return class{}, err
	}
	is := journal.StorageClass{Name: found.Name, Driver: found.Provisioner}
	if is.Digest, err = blockvolume.ClassDigest(found); err == nil {
		m.classes[name], err = m.same(is, was)
	}
	if err != nil {
		return class{}, err
	}
	if zones > 1 && blockvolume.AnyZone(found) && !m.done {
		return class{}, failure.New(failure.Unready, op, found.Name,
			"it makes volumes before their pods are there, in any of the %d zones of the nodes", zones).
			WithHint("name one by --storage-class with volumeBindingMode: WaitForFirstConsumer, or the nodes of one " +
				"zone by --worker-node-selector")
	}
	return class{found.Name, m.classes[name].Driver, blockvolume.Zones(found)}, nil
}

// same refuses a class that is not as it was when the run began to fill volumes: some would be of another kind than the
// others. Once all are filled, they are what they are.
func (m *Maker) same(is, was journal.StorageClass) (journal.StorageClass, error) {
	switch {
	case was.Name == "", is == was:
		return is, nil
	case m.done:
		return was, nil
	}
	what := "its parameters, its volumeBindingMode or its allowedTopologies are not those"
	if is.Driver != was.Driver {
		what = fmt.Sprintf("its provisioner is %s, and was %s", is.Driver, was.Driver)
	}
	return is, failure.New(failure.Conflict, "check storage class", is.Name,
		"someone has replaced it since run %s began with it: %s", m.owner.Run, what).WithHint("%s", m.sameAgain())
}

// sameAgain is what to do about a class that is another one by now.
func (m *Maker) sameAgain() string {
	return fmt.Sprintf("make it again as it was, and run the same command again; or give the run up: %s", m.removal())
}

// spread chooses the zone of each store: what the user chose; or its own where the target has all zones of the source;
// or else one of the target's for each of the source's, so that stores of different zones stay apart if there are
// enough. The stores of a source with one zone are spread evenly.
func spread(planned []volumes.Volume, chosen Zones, targets []cluster.Zone) (map[cluster.StoreID]cluster.Zone, error) {
	own, ordinals := map[cluster.StoreID]cluster.Zone{}, map[cluster.StoreID]int{}
	var sources []cluster.Zone
	for _, v := range planned {
		own[v.Store], ordinals[v.Store] = v.Zone, v.Ordinal
		if !slices.Contains(sources, v.Zone) {
			sources = append(sources, v.Zone)
		}
	}
	slices.Sort(sources)
	if chosen.All != "" || len(chosen.Pairs) > 0 {
		mapped, err := volumes.MapNamed(sources, chosen.All, chosen.Pairs, targets)
		if err != nil {
			return nil, err
		}
		for store, zone := range own {
			own[store] = mapped[zone]
		}
		return own, nil
	}
	there := func(zone cluster.Zone) bool { return slices.Contains(targets, zone) }
	for store, zone := range own {
		switch {
		case len(targets) == 0:
			own[store] = ""
		case !slices.ContainsFunc(sources, func(z cluster.Zone) bool { return !there(z) }):
		case len(sources) > 1:
			own[store] = targets[slices.Index(sources, zone)%len(targets)]
		default:
			own[store] = targets[ordinals[store]%len(targets)]
		}
	}
	return own, nil
}
