package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// Member is the Operator of one of several Kubernetes clusters, and the names of the TidbClusters there.
type Member struct {
	*Operator

	Source, Target cluster.Name
	Stores         int

	TS cluster.TS // of its Backup, once that is complete
}

// Federation is br-federation-manager: it drives one VolumeBackup and one VolumeRestore over its members. PD of the
// cluster is in the first one's Kubernetes cluster.
type Federation struct{ Members []*Member }

// Backup is a VolumeBackup: initialize in the first Kubernetes cluster alone, execute in each, and teardown. during is
// called when a member has ended and the next one begins; the manager itself begins all together.
func (f *Federation) Backup(ctx context.Context, during func() error) error {
	holder, err := f.Members[0].Initialize(ctx, f.Members[0].Source)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	for i, m := range f.Members {
		if i > 0 {
			err = during()
		}
		if err == nil {
			err = m.execute(ctx)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("execute in %s: %w", m.Place, err), holder.Terminate())
		}
	}
	return holder.Terminate()
}

func (m *Member) execute(ctx context.Context) error {
	run, err := m.Execute(ctx, m.Source)
	if err != nil {
		return err
	}
	m.TS = cluster.TS(run.ResolvedTS("EBS backup success"))
	return check(run, "EBS backup success", m.TS)
}

// CreateTargets makes the TidbClusters that a user makes for a VolumeRestore.
func (f *Federation) CreateTargets(ctx context.Context) error {
	for i, m := range f.Members {
		if err := m.CreateTarget(ctx, m.Target, m.Stores, func(o *kubetest.ClusterOptions) {
			if i > 0 {
				o.Join = f.Members[0].Target
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// RestoreVolumes is the phase restore-volume of all members, by which their stores start.
func (f *Federation) RestoreVolumes(ctx context.Context) error {
	return f.together(func(m *Member) error {
		run, err := m.Operator.RestoreVolumes(ctx, m.Target)
		if err != nil {
			return err
		}
		return check(run, "EBS restore success", m.TS)
	})
}

// RestoreData is the phase restore-data: of the member with the lowest commitTs alone, for the stores of all.
func (f *Federation) RestoreData(ctx context.Context) (cluster.TS, error) {
	m := slices.MinFunc(f.Members, func(a, b *Member) int { return cmp.Compare(a.TS, b.TS) })
	run, err := m.Operator.RestoreData(ctx, m.Target)
	if err != nil {
		return 0, err
	}
	return m.TS, check(run, "EBS restore success", m.TS)
}

// Finish is the phase restore-finish of all members.
func (f *Federation) Finish(ctx context.Context) error {
	return f.together(func(m *Member) error { return m.Operator.Finish(ctx, m.Target) })
}

func (f *Federation) together(do func(*Member) error) error {
	errs := make([]error, len(f.Members))
	var wg sync.WaitGroup
	for i, m := range f.Members {
		wg.Go(func() {
			if err := do(m); err != nil {
				errs[i] = fmt.Errorf("in %s: %w", m.Place, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
