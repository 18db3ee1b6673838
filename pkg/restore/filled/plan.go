package filled

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// Zones is which of the target's zones the user chose; see volumes.Options.
type Zones struct {
	All   cluster.Zone
	Pairs []volumes.ZonePair
}

// Plan plans the volumes, in the target's zones, by its StorageClasses, and checks these. It changes nothing. A resumed
// run keeps the zones that it began with.
func (m *Maker) Plan(ctx context.Context, backup *manifest.Manifest, chosen Zones) (volumes.Plan, error) {
	plan, err := volumes.PlanClaims(backup, nil)
	if err != nil {
		return plan, err
	}
	plan.DataBytes, plan.LargestBytes = m.source.Bytes()
	targets, err := m.kube.Zones(ctx, &m.fill.Options.Pod)
	if err != nil {
		return plan, err
	}
	classes, err := m.classes(ctx, plan.Volumes, len(targets))
	if err != nil {
		return plan, err
	}
	zones := m.zones
	if zones == nil {
		if targets, err = allowed(targets, classes); err != nil {
			return plan, err
		}
		if zones, err = spread(plan.Volumes, chosen, targets); err != nil {
			return plan, err
		}
	}
	byRole := map[string]string{}
	for i := range plan.Volumes {
		v, of := &plan.Volumes[i], classes[i]
		v.Zone = zones[v.Store]
		if was := byRole[string(v.Role)]; was != "" && was != of.name {
			return plan, failure.New(failure.Unready, "plan volumes", string(v.Role),
				"the source's volumes of this role are of the StorageClasses %s and %s", was, of.name).
				WithHint("name one for all by --storage-class")
		}
		byRole[string(v.Role)] = of.name
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

// classes returns the StorageClass of each volume.
func (m *Maker) classes(ctx context.Context, planned []volumes.Volume, zones int) ([]class, error) {
	known := map[string]class{}
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

// class returns a StorageClass, which makes volumes on demand, and where its pod is.
func (m *Maker) class(ctx context.Context, name string, zones int) (class, error) {
	const op = "check storage class"
	found, err := m.fill.Claims.Class(ctx, name)
	switch {
	case failure.Is(err, failure.NotFound):
		return class{}, failure.New(failure.Unready, op, name, "this Kubernetes cluster does not have it, and the "+
			"source's volumes are of it").WithHint("name one that is here by --storage-class: kubectl get storageclass")
	case err != nil:
		return class{}, err
	case zones > 1 && blockvolume.AnyZone(found):
		return class{}, failure.New(failure.Unready, op, found.Name,
			"it makes volumes before their pods are there, in any of the %d zones of the nodes", zones).
			WithHint("name one by --storage-class with volumeBindingMode: WaitForFirstConsumer, or the nodes of one " +
				"zone by --worker-node-selector")
	}
	return class{found.Name, found.Provisioner, blockvolume.Zones(found)}, nil
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
