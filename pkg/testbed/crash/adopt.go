package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// partNames are the parts of an adoption: two Kubernetes clusters.
func partNames() []string { return []string{"east", "west"} }

func (s *scene) partURL(name string) string { return s.url() + "-" + name }

func (s *scene) adoptArgs() []string {
	args := []string{"adopt", s.name, "--storage", s.url()}
	for _, name := range partNames() {
		args = append(args, "--part", name+"="+s.partURL(name))
	}
	return args
}

// createParts makes two parts of the baseline, as if its stores were in two Kubernetes clusters: the first has one.
func (s *scene) createParts(ctx context.Context) error {
	whole, err := catalog.Catalog{Store: s.world.store}.Load(ctx, baseline)
	if err != nil {
		return err
	}
	of := [][]cluster.Store{whole.Source.Stores[:1], whole.Source.Stores[1:]}
	for i, name := range partNames() {
		if err := s.createPart(ctx, whole, name, of[i], of[1-i]); err != nil {
			return failure.Annotate(err, "create part", name)
		}
	}
	return nil
}

// createPart makes the part of some stores. Its TidbCluster is one of several, and all others join that of the first part.
func (s *scene) createPart(ctx context.Context, whole *manifest.Manifest, name string, stores, elsewhere []cluster.Store) error {
	m := *whole
	m.ID, m.Run, m.HeldBy = cluster.BackupID("br-"+name), cluster.RunID("br-"+name), "holder"
	m.Source.Cluster.Name, m.Source.Stores = name, stores
	m.Marks, m.Snapshots = nil, nil
	mine, peers := map[cluster.StoreID]bool{}, map[string]any{}
	for _, store := range stores {
		mine[store.ID] = true
	}
	for _, store := range elsewhere {
		peers[store.ID.String()] = map[string]any{}
	}
	for _, snap := range whole.Snapshots {
		if mine[snap.Store] {
			m.Snapshots = append(m.Snapshots, snap)
		}
	}
	spec := map[string]any{"acrossK8s": true, "pd": map[string]any{"replicas": 1}, "tikv": map[string]any{"replicas": len(stores)}}
	if name != partNames()[0] {
		spec["cluster"] = map[string]any{"name": partNames()[0], "namespace": source.Namespace}
	}
	var err error
	m.Kubernetes.TidbCluster, err = json.Marshal(map[string]any{
		"metadata": map[string]any{"name": name, "namespace": source.Namespace}, "spec": spec,
		"status": map[string]any{"clusterID": fmt.Sprint(m.Source.ClusterID), "tikv": map[string]any{"peerStores": peers}},
	})
	if err != nil {
		return err
	}
	store, err := s.openAt(ctx, s.partURL(name))
	if err != nil {
		return err
	}
	c, claim := catalog.Catalog{Store: store}, catalog.Claim{ID: m.ID, Run: m.Run, Cluster: m.Source.Cluster, ClaimedAt: m.CreatedAt}
	for _, step := range []func() error{
		func() error { return c.ClaimForBR(ctx, claim) },
		func() error { return c.LockForBR(ctx, claim) },
		func() error { return c.PutManifest(ctx, &m) },
		func() error { return c.PutForBR(ctx, &m) },
		func() error { return c.Seal(ctx, m.ID, m.CreatedAt.Add(time.Hour), 0) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// readAdopted reads what each part has become.
func (s *scene) readAdopted(ctx context.Context, docs map[string]any) error {
	m, err := catalog.Catalog{Store: s.store}.Load(ctx, cluster.BackupID(s.name))
	if err != nil {
		return err
	}
	parts := map[string]any{}
	for _, p := range m.Parts {
		store, err := s.openAt(ctx, s.partURL(p.Name))
		if err != nil {
			return err
		}
		pin, err := catalog.Catalog{Store: store}.PinOf(ctx, p.Backup, p.Run)
		if err != nil {
			return err
		}
		parts[p.Name] = map[string]any{"stores": len(p.Stores), "pinned": pin != nil && pin.Until.IsZero()}
	}
	docs["adopted"] = map[string]any{"parts": parts, "stores": len(m.Source.Stores), "snapshots": len(m.Snapshots)}
	return nil
}

// verifyAdopted proves that the whole has every snapshot of the baseline and its parts are pinned, and deletes it alone.
func (s *scene) verifyAdopted(ctx context.Context) error {
	docs := map[string]any{}
	if err := s.readAdopted(ctx, docs); err != nil {
		return err
	}
	const want = `{"parts":{"east":{"pinned":true,"stores":1},"west":{"pinned":true,"stores":2}},"snapshots":6,"stores":3}`
	if got, err := json.Marshal(docs["adopted"]); err != nil || string(got) != want {
		return fmt.Errorf("the whole is %s, and not %s (%w)", got, want, err)
	}
	if err := s.succeeds(ctx, s.onOwn("list", "--check")...); err != nil {
		return err
	}
	if err := s.succeeds(ctx, s.onOwn("delete", s.name, "--yes", "--last", "--delete-rate", "100")...); err != nil {
		return err
	}
	return s.balanced(ctx)
}
