package claims

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/workers"
	"github.com/tisnap/tisnap/pkg/parallel"
)

const (
	// deadline is for each wait for Kubernetes and the CSI driver, except for the pods.
	deadline = 10 * time.Minute
	// fillDeadline only keeps a run from staying for ever: a volume of 64 TiB takes six days at 125 MiB/s.
	fillDeadline = 7 * 24 * time.Hour
	// retries are of each pod; it resumes what the one before has written.
	retries = 10
	grace   = 30 * time.Second
	keep    = time.Hour // a Job that is not removed
)

// Options are what the user chose.
type Options struct {
	Run       cluster.RunID
	Archive   string // its id, in an archive of this repository
	Namespace string
	Class     string // of storage
	// Pod is what all Jobs have in common; its Args are what `tisnap archive fill ARCHIVE` gets besides --to.
	Pod     workers.Spec
	Workers int // Jobs at the same time
	// Final are the exit codes after which a pod is not made again.
	Final []int
}

// Filler fills claims with the volumes of an archive.
type Filler struct {
	Claims  *blockvolume.Claims
	Jobs    *workers.Jobs
	Options Options
	// Stand is called, concurrently, with how the pod of a store stands; nil is not.
	Stand func(store uint64, s workers.State)
}

// Item is a volume of the archive, and where it is then.
type Item struct {
	Store  uint64
	Volume format.Volume
	Claim  blockvolume.Claim
	// Bound is the claim's volume, once it is filled.
	Bound blockvolume.Volume
	Err   error
}

// Fill makes a claim for each volume, and fills those of each store by a Job. The same run resumes: claims that it
// filled stay as they are, since they may be in use. A store that fails does not keep the others from being filled. It
// returns all volumes, also on error.
func (f *Filler) Fill(ctx context.Context, a *format.Archive) ([]Item, error) {
	items := make([][]Item, len(a.Stores))
	errs := make([]error, len(a.Stores))
	err := parallel.Each(ctx, f.Options.Workers, a.Stores, func(ctx context.Context, i int, s format.Store) error {
		items[i], errs[i] = f.store(ctx, s)
		for k := range items[i] {
			if errs[i] != nil && items[i][k].Bound == (blockvolume.Volume{}) {
				items[i][k].Err = errs[i]
			}
		}
		return ctx.Err()
	})
	if err == nil {
		err = failure.Join(errs...)
	}
	return slices.Concat(items...), err
}

// store fills the volumes of one store.
func (f *Filler) store(ctx context.Context, s format.Store) ([]Item, error) {
	items := make([]Item, len(s.Volumes))
	for i, v := range s.Volumes {
		items[i] = Item{Store: s.ID, Volume: v}
	}
	var todo []*Item
	for i := range items {
		one := &items[i]
		if err := f.claim(ctx, one); err != nil {
			return items, err
		}
		if one.Claim.Filled == "" {
			todo = append(todo, one)
		}
	}
	if len(todo) > 0 {
		if err := f.fill(ctx, s.ID, todo); err != nil {
			return items, err
		}
	}
	return items, f.bound(ctx, items)
}

// claim makes the claim of a volume.
func (f *Filler) claim(ctx context.Context, one *Item) (err error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	o := &f.Options
	one.Claim, err = f.Claims.Make(ctx, blockvolume.Spec{
		Run: o.Run, Namespace: o.Namespace, Name: blockvolume.NameOf(o.Run, one.Store, one.Volume.Role),
		Class: o.Class, SizeGiB: (one.Volume.Size + 1<<30 - 1) >> 30,
		Labels: map[string]string{
			"app.kubernetes.io/name": "tisnap", "tisnap.io/store": strconv.FormatUint(one.Store, 10),
		},
	})
	if err == nil && one.Claim.Filled != "" && one.Claim.Filled != o.Archive {
		err = failure.New(failure.Conflict, "make claim", one.Claim.String(), "the run has filled it from archive %s",
			one.Claim.Filled).WithHint("begin another run by --run-id")
	}
	return err
}

// fill fills claims by a Job, and removes that, so that no pod holds their volumes.
func (f *Filler) fill(ctx context.Context, store uint64, todo []*Item) error {
	job, err := f.job(ctx, store, todo)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, fillDeadline)
	defer cancel()
	err = f.Jobs.Wait(waiting, job, func(s workers.State) {
		if f.Stand != nil {
			f.Stand(store, s)
		}
	})
	if err != nil {
		return failure.Annotate(err, "fill volumes", fmt.Sprintf("store %d", store))
	}
	ctx, done := context.WithTimeout(ctx, deadline)
	defer done()
	for _, one := range todo {
		if err := f.Claims.Mark(ctx, one.Claim, f.Options.Archive); err != nil {
			return err
		}
		one.Claim.Filled = f.Options.Archive
	}
	return f.Jobs.Remove(ctx, job)
}

// job makes the Job of a store, or finds the run's own.
func (f *Filler) job(ctx context.Context, store uint64, todo []*Item) (workers.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	o := &f.Options
	spec := o.Pod
	spec.Run, spec.Namespace, spec.Name = o.Run, o.Namespace, jobName(o.Run, store)
	spec.Pods, spec.Retries, spec.Final, spec.Grace, spec.Keep = 1, retries, o.Final, grace, keep
	spec.Args = append([]string{"archive", "fill", o.Archive}, o.Pod.Args...)
	spec.Devices = nil
	var uids []string
	for i, one := range todo {
		path := fmt.Sprintf("/dev/tisnap-%d", i)
		spec.Devices = append(spec.Devices, workers.Device{Claim: one.Claim.Name, Path: path})
		spec.Args = append(spec.Args, "--to", fmt.Sprintf("%d/%s=%s", store, one.Volume.Role, path))
		uids = append(uids, one.Claim.UID)
	}
	// A Job that has filled a claim which someone has deleted since has not filled the one of its name.
	spec.Env = maps.Clone(o.Pod.Env)
	if spec.Env == nil {
		spec.Env = map[string]string{}
	}
	spec.Env["CLAIM_UIDS"] = strings.Join(uids, ",")
	return f.Jobs.Make(ctx, spec)
}

// jobName is the name of a run's Job for a store. Runs whose ids begin in the same way differ in it.
func jobName(run cluster.RunID, store uint64) string {
	sum := sha256.Sum256([]byte(run))
	return fmt.Sprintf("tisnap-fill-%d-%s", store, hex.EncodeToString(sum[:6]))
}

// bound finds the volumes of filled claims.
func (f *Filler) bound(ctx context.Context, items []Item) (err error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	for i := range items {
		if items[i].Bound, err = f.Claims.Bound(ctx, items[i].Claim); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the run's Jobs, and then its claims with their volumes, filled ones too. All are tried, whatever
// fails; what is another run's, or no run's, stays.
func (f *Filler) Remove(ctx context.Context, a *format.Archive) (removed []blockvolume.Claim, err error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var errs []error
	for _, s := range a.Stores {
		job, err := f.Jobs.Find(ctx, f.Options.Run, f.Options.Namespace, jobName(f.Options.Run, s.ID))
		if err == nil && job != nil {
			err = f.Jobs.Remove(ctx, *job)
		}
		if err != nil {
			errs = append(errs, err)
			continue // its pod holds the volumes
		}
		for _, v := range s.Volumes {
			name := blockvolume.NameOf(f.Options.Run, s.ID, v.Role)
			claim, err := f.Claims.Find(ctx, f.Options.Run, f.Options.Namespace, name)
			if err == nil && claim != nil {
				if err = f.Claims.Remove(ctx, *claim); err == nil {
					removed = append(removed, *claim)
				}
			}
			errs = append(errs, err)
		}
	}
	return removed, failure.Join(errs...)
}
