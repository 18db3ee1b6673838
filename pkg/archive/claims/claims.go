package claims

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
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
	// Classes are those of roles whose volumes have another one.
	Classes map[string]string
	// Zones are where the volumes of stores are filled, and so made, if the class waits for the first consumer; those
	// of others are anywhere.
	Zones map[uint64]cluster.Zone
	// Beside are the rules of the pods that the volumes of stores are for. Those of stores without a zone are filled,
	// and so made, where these pods may run, too.
	Beside map[uint64]podnodes.Rules
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
// returns all volumes, also on error; each that is not filled has one.
func (f *Filler) Fill(ctx context.Context, a *format.Archive) ([]Item, error) {
	items := make([][]Item, len(a.Stores))
	for i, s := range a.Stores {
		for _, v := range s.Volumes {
			items[i] = append(items[i], Item{Store: s.ID, Volume: v})
		}
	}
	errs := make([]error, len(a.Stores), len(a.Stores)+1)
	_, err := workers.Object(f.spec(0, nil)) // a pod that cannot be made is no reason for claims
	if err == nil {
		err = parallel.Each(ctx, f.Options.Workers, a.Stores, func(ctx context.Context, i int, s format.Store) error {
			errs[i] = f.store(ctx, s.ID, items[i])
			return ctx.Err()
		})
	}
	all := failure.Join(append(errs, err)...)
	for i := range items {
		why := errs[i]
		if why == nil {
			why = all
		}
		for k := range items[i] {
			if one := &items[i][k]; one.Bound == (blockvolume.Volume{}) {
				one.Err = why
			}
		}
	}
	return slices.Concat(items...), all
}

// store fills the volumes of one store.
func (f *Filler) store(ctx context.Context, id uint64, items []Item) error {
	var todo []*Item
	for i := range items {
		one := &items[i]
		if err := f.claim(ctx, one); err != nil {
			return err
		}
		if one.Claim.Filled == "" {
			todo = append(todo, one)
		}
	}
	finish := f.fill
	if len(todo) == 0 {
		finish = f.release
	}
	if err := finish(ctx, id, todo); err != nil {
		return err
	}
	return f.bound(ctx, items)
}

// claim makes the claim of a volume.
func (f *Filler) claim(ctx context.Context, one *Item) (err error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	o := &f.Options
	one.Claim, err = f.Claims.Make(ctx, blockvolume.Spec{
		Run: o.Run, Namespace: o.Namespace, Name: blockvolume.NameOf(o.Run, one.Store, one.Volume.Role),
		Class: cmp.Or(o.Classes[one.Volume.Role], o.Class), SizeGiB: (one.Volume.Size + 1<<30 - 1) >> 30,
		Labels: map[string]string{
			"app.kubernetes.io/name": "tisnap", "tisnap.io/store": strconv.FormatUint(one.Store, 10),
		},
		Content: o.Archive,
	})
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
	var last workers.State
	err = f.Jobs.Wait(waiting, job, func(s workers.State) {
		last = s
		if f.Stand != nil {
			f.Stand(store, s)
		}
	})
	ctx, done := context.WithTimeout(ctx, deadline)
	defer done()
	if err != nil {
		err = failure.Annotate(err, "fill volumes", storeName(store))
		if failure.Is(err, failure.Unready) && !last.Broken { // no pod runs, and none is to begin later
			err = failure.Join(err, f.Jobs.Remove(ctx, job))
		}
		if failure.Is(err, failure.NotFound) { // whoever has filled the volumes has removed the Job
			if seen := f.unfilled(ctx, todo); failure.Is(seen, failure.Conflict) {
				return seen
			}
		}
		return err
	}
	for _, one := range todo {
		if err := f.Claims.MarkVolume(ctx, one.Claim); err != nil {
			return err
		}
	}
	for _, one := range todo {
		if err := f.Claims.Mark(ctx, one.Claim, f.Options.Archive); err != nil {
			return err
		}
		one.Claim.Filled = f.Options.Archive
	}
	if err := f.Jobs.Remove(ctx, job); err != nil {
		return err
	}
	return f.alone(ctx, store)
}

func storeName(store uint64) string { return fmt.Sprintf("store %d", store) }

// release removes a Job that another command has left on claims which are filled.
func (f *Filler) release(ctx context.Context, store uint64, _ []*Item) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	job, err := f.Jobs.Find(ctx, f.Options.Run, f.Options.Namespace, jobName(f.Options.Run, store))
	if err != nil || job == nil {
		return err
	}
	if err := f.Jobs.Remove(ctx, *job); err != nil {
		return err
	}
	return f.alone(ctx, store)
}

// alone checks, once the claims are marked, that no other command has a Job on them. One that makes its Job later than
// that sees the marks.
func (f *Filler) alone(ctx context.Context, store uint64) error {
	job, err := f.Jobs.Find(ctx, f.Options.Run, f.Options.Namespace, jobName(f.Options.Run, store))
	if err != nil || job == nil {
		return err
	}
	return failure.New(failure.Conflict, "fill volumes", storeName(store), "another command of the run has made job %s",
		job).WithHint("run the same command again when the other one has ended")
}

// unfilled checks that the claims are the run's still, and that no other command has filled them since they were read:
// they may be in use then.
func (f *Filler) unfilled(ctx context.Context, todo []*Item) error {
	const op = "fill volumes"
	for _, one := range todo {
		claim := one.Claim
		now, err := f.Claims.Find(ctx, claim.Run, claim.Namespace, claim.Name)
		switch {
		case err != nil:
			return err
		case now == nil || now.UID != claim.UID:
			return failure.New(failure.NotFound, op, claim.String(), "someone deleted it").
				WithHint("run the same command again")
		case now.Filled != "":
			return failure.New(failure.Conflict, op, claim.String(), "another command of the run has filled it").
				WithHint("run the same command again, which lists it")
		}
		if _, err := f.Claims.Bound(ctx, claim); err != nil && !failure.Is(err, failure.Limited) {
			return err
		}
	}
	return nil
}

// job makes the Job of a store, or finds the run's own.
func (f *Filler) job(ctx context.Context, store uint64, todo []*Item) (workers.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	return f.Jobs.MakeIf(ctx, f.spec(store, todo), func(ctx context.Context) error { return f.unfilled(ctx, todo) })
}

// spec is that of a store's Job.
func (f *Filler) spec(store uint64, todo []*Item) workers.Spec {
	o := &f.Options
	spec := o.Pod
	spec.Run, spec.Namespace, spec.Name = o.Run, o.Namespace, jobName(o.Run, store)
	spec.Pods, spec.Retries, spec.Final = 1, retries, o.Final
	spec.Grace, spec.Within, spec.Keep = grace, fillDeadline, keep
	spec.Args = append([]string{"archive", "fill", o.Archive}, o.Pod.Args...)
	if zone := o.Zones[store]; zone != "" {
		spec.NodeSelector = maps.Clone(o.Pod.NodeSelector)
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		spec.NodeSelector[workers.ZoneLabel] = string(zone)
	} else if rules, has := o.Beside[store]; has {
		spec.Beside = &rules
	}
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
	return spec
}

const jobPrefix = "tisnap-fill-"

// jobName is the name of a run's Job for a store. Runs whose ids begin in the same way differ in it.
func jobName(run cluster.RunID, store uint64) string {
	sum := sha256.Sum256([]byte(run))
	return fmt.Sprintf("%s%d-%s", jobPrefix, store, hex.EncodeToString(sum[:6]))
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

// Remove removes the run's Jobs, and then its claims with their volumes, filled ones too, of whichever archive. If
// something else uses one of them, it is a Conflict, and all stay; the claims stay while a Job cannot be removed, and
// are all tried otherwise, whatever fails. What is another run's, or no run's, stays. A run that has made nothing is
// NotFound.
func (f *Filler) Remove(ctx context.Context) (removed []blockvolume.Claim, err error) {
	o := &f.Options
	jobs, made, err := f.made(ctx)
	if err != nil {
		return nil, err
	}
	if len(jobs)+len(made) == 0 {
		return nil, failure.New(failure.NotFound, "remove claims", string(o.Run),
			"namespace %s has no Job and no claim of the run, and no volume of one", o.Namespace).
			WithHint("name the archive by its id, or the --run-id, that they were made with")
	}
	err = parallel.Each(ctx, o.Workers, jobs, func(ctx context.Context, _ int, job workers.Job) error {
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		return f.Jobs.Remove(ctx, job)
	})
	if err != nil {
		return nil, err // its pod holds the volumes
	}
	gone := make([]bool, len(made))
	err = parallel.Each(ctx, o.Workers, made, func(ctx context.Context, i int, claim blockvolume.Claim) error {
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		err := f.Claims.Remove(ctx, claim)
		gone[i] = err == nil
		return err
	})
	for i, claim := range made {
		if gone[i] {
			removed = append(removed, claim)
		}
	}
	return removed, err
}

// made finds what the run has made, and checks that nothing else uses the claims.
func (f *Filler) made(ctx context.Context) (jobs []workers.Job, made []blockvolume.Claim, err error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	o := &f.Options
	if jobs, err = f.Jobs.Made(ctx, o.Run, o.Namespace); err != nil {
		return nil, nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j workers.Job) bool { // of another command with this run
		return !strings.HasPrefix(j.Name, jobPrefix)
	})
	if made, err = f.Claims.Made(ctx, o.Run, o.Namespace); err != nil {
		return nil, nil, err
	}
	left, err := f.Claims.Left(ctx, o.Run, o.Namespace)
	if err != nil {
		return nil, nil, err
	}
	for _, one := range left { // also those that went in between
		if !slices.ContainsFunc(made, func(c blockvolume.Claim) bool { return c.UID == one.UID }) {
			made = append(made, one)
		}
	}
	err = parallel.Each(ctx, o.Workers, made, func(ctx context.Context, _ int, claim blockvolume.Claim) error {
		return f.Claims.Unused(ctx, claim)
	})
	return jobs, made, err
}

// Watch makes a Filler's Stand that calls show with how a store's pod stands, in a few words, each change once, and one
// call at a time.
func Watch(show func(store uint64, text string, s workers.State)) func(store uint64, s workers.State) {
	var mu sync.Mutex
	shown := map[uint64]string{}
	return func(store uint64, s workers.State) {
		mu.Lock()
		defer mu.Unlock()
		if text := standing(s); shown[store] != text {
			shown[store] = text
			show(store, text, s)
		}
	}
}

func standing(s workers.State) string {
	switch {
	case s.Done:
		return "its volumes are filled"
	case len(s.Waiting) > 0:
		return s.Waiting[0]
	case s.Ready == 0:
		return "its pod does not run yet"
	}
	return "its pod runs"
}
