package leak

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// route is how a backup is copied, and where to.
type route struct {
	name    string
	from    *ebstest.Server
	to      *ebstest.Server
	copy    []string // arguments of the copy
	there   []string // what leads commands to the copy
	foreign bool     // the target is another account
	pull    bool
}

// routes are all of them.
func (c *copies) routes() []route {
	role := c.bed.Vault.AddRole("copies", "")
	push := []string{"--storage", sourceStorage, "--to-storage", copyStorage}
	pull := []string{"--from-storage", sourceStorage, "--storage", copyStorage}
	away := []string{"--storage", copyStorage, "--region", testbed.AwayRegion}
	vault := append(away[:len(away):len(away)], "--ebs-role-arn", role)
	join := func(a []string, more ...string) []string { return append(a[:len(a):len(a)], more...) }
	return []route{
		{"push into another region", c.bed.EC2, c.bed.Away, join(push, "--to-region", testbed.AwayRegion), away, false, false},
		{"push into another account", c.bed.EC2, c.bed.Vault, join(push, "--to-region", testbed.AwayRegion, "--role-arn", role), vault, true, false},
		{"push into another storage", c.bed.EC2, c.bed.EC2, push, []string{"--storage", copyStorage}, false, false},
		{"pull into another region", c.bed.EC2, c.bed.Away, join(pull, "--region", testbed.AwayRegion), away, false, true},
		{"pull into another account", c.bed.EC2, c.bed.Vault, join(pull, "--region", testbed.AwayRegion, "--ebs-role-arn", role), vault, true, true},
	}
}

// onward makes the copy the source of another one, into the first account, and there into the other region if it is in
// this one; false if that account may not read what the default key of another one encrypted.
func (c *copies) onward(ctx context.Context) (bool, error) {
	m, err := catalog.Catalog{Store: c.to}.Load(ctx, copied)
	if err != nil {
		return false, err
	}
	from, next := c.route.to, c.bed.EC2
	if from == next {
		next = c.bed.Away
	}
	on := route{
		name: c.route.name + " and on", from: from, to: next, foreign: c.route.foreign,
		copy:  append(c.route.there[:len(c.route.there):len(c.route.there)], "--to-storage", onStorage, "--to-region", next.Region()),
		there: []string{"--storage", onStorage, "--region", next.Region()},
	}
	if on.foreign {
		on.copy = append(on.copy, "--role-arn", next.AddRole("onward", ""))
	}
	for _, s := range m.Snapshots {
		if on.foreign && s.Encrypted && !slices.Contains(c.route.copy, s.KMSKey) {
			return false, nil
		}
		if s.Encrypted {
			from.ShareKey(s.KMSKey, next.Account())
		}
		_, c.images[s.ID], _ = from.Snapshot(s.ID)
	}
	c.behind = append([]at{{c.to, c.route.there}}, c.behind...)
	c.from, c.route, c.r.Route = c.to, on, on.name
	c.lost.Store(false)
	c.to, err = c.open(ctx, onStorage)
	return true, err
}

// createVolumes creates the cluster's volumes, for one seed of three encrypted by a key that the target may use.
func (c *copies) createVolumes() error {
	key := ""
	if c.rng.IntN(3) == 0 {
		key = fmt.Sprintf("arn:aws:kms:%s:%s:key/source", testbed.Region, c.bed.EC2.Account())
		c.bed.EC2.ShareKey(key, testbed.VaultAccount)
		if c.rng.IntN(2) == 0 {
			own := fmt.Sprintf("arn:aws:kms:%s:%s:key/copies", c.route.to.Region(), c.route.to.Account())
			c.route.copy = append(c.route.copy, "--kms-key", own)
		}
	}
	for id := range cluster.StoreID(1 + c.rng.IntN(13)) { // 26 volumes are more than EC2 copies at a time
		instance := c.bed.EC2.AddInstance(testbed.Region + "a")
		store := cluster.Store{ID: id + 1, Instance: instance}
		for _, role := range []cluster.Role{cluster.RoleData, cluster.RoleRaftLog} {
			spec := cluster.VolumeSpec{Type: "gp3", SizeGiB: 1 + c.rng.Int64N(100)}
			volume, err := c.bed.EC2.CreateVolumeDirect(testbed.Region+"a", spec, nil)
			if err != nil {
				return err
			}
			if key != "" {
				if err := c.bed.EC2.Encrypt(volume, key); err != nil {
					return err
				}
			}
			if err := c.bed.EC2.Attach(volume, instance); err != nil {
				return err
			}
			store.Volumes = append(store.Volumes, cluster.Volume{ID: volume, Role: role, Zone: testbed.Region + "a", VolumeSpec: spec})
		}
		c.volumes = append(c.volumes, store)
	}
	c.r.Snapshots = 2 * len(c.volumes)
	return nil
}

// backUp writes to the volumes and seals a backup of them. For a pull its account shares the snapshots.
func (c *copies) backUp(ctx context.Context, name cluster.BackupID) error {
	client, err := ebs.Open(ctx, ebs.Config{Region: testbed.Region, Endpoint: c.bed.AWS()})
	if err != nil {
		return err
	}
	defer client.Close()
	start := time.Now().UTC()
	m := &manifest.Manifest{
		ID: name, Run: cluster.RunID("made-" + name), Tool: "v0", Region: testbed.Region, BackupTS: cluster.MakeTS(start, 0),
		CreatedAt: start, Source: cluster.Topology{Cluster: source, ClusterID: 7, Version: "8.5.0", Stores: c.volumes},
	}
	var bytes int64
	for _, store := range c.volumes {
		for _, v := range store.Volumes {
			device, err := c.bed.EC2.Device(v.ID)
			if err != nil {
				return err
			}
			if _, err := device.WriteAt([]byte(fmt.Sprint(name, v.ID, c.rng.Uint64())), c.rng.Int64N(v.SizeGiB<<30-1<<20)); err != nil {
				return err
			}
		}
		made, err := client.Cut(ctx, ebs.CutRequest{Instance: store.Instance, Volumes: []cluster.VolumeID{store.Volumes[0].ID, store.Volumes[1].ID}})
		if err != nil {
			return err
		}
		for _, s := range made {
			for _, v := range store.Volumes {
				if v.ID == s.Volume {
					m.Snapshots = append(m.Snapshots, manifest.NewSnapshot(s.ID, store.ID, v, start))
				}
			}
		}
	}
	for _, s := range m.Snapshots {
		if err := completed(ctx, client, s.ID); err != nil {
			return err
		}
		if c.images[s.ID], err = c.bed.EC2.Image(s.ID); err != nil {
			return err
		}
		bytes += s.SizeGiB << 30
		if c.route.pull && c.route.foreign {
			if err := client.ShareSnapshot(ctx, s.ID, []string{testbed.VaultAccount}); err != nil {
				return err
			}
		}
	}
	backups := catalog.Catalog{Store: c.from}
	if err := backups.Claim(ctx, catalog.Claim{ID: name, Run: m.Run, Cluster: source, ClaimedAt: start}); err != nil {
		return err
	}
	if err := backups.PutManifest(ctx, m); err != nil {
		return err
	}
	return backups.Seal(ctx, name, start, bytes)
}

// completed waits until EC2 shows a snapshot as completed.
func completed(ctx context.Context, client *ebs.Client, id cluster.SnapshotID) error {
	return wait.Until(ctx, wait.Every(10*time.Millisecond), func() (bool, error) {
		found, err := client.DescribeSnapshots(ctx, []cluster.SnapshotID{id})
		return len(found) == 1 && found[0].State == ebs.SnapshotCompleted, err
	})
}

func (c *copies) copyArgs(name string) []string {
	return append([]string{"copy", name, "--stuck", "5m"}, c.route.copy...)
}
