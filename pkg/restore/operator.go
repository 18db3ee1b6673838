package restore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// firstOfOperator2 is the first major version of TiDB that TiDB Operator 2.x runs
// (https://docs.pingcap.com/tidb-in-kubernetes/v2.0/tidb-operator-overview).
const firstOfOperator2 = 8

// forOperator returns the manifest with the cluster's objects as the generation of TiDB Operator has them that is to
// run the target, "1" or "2", and what of them it does not carry over.
func forOperator(operator string, m *manifest.Manifest) (_ *manifest.Manifest, lost []string, err error) {
	if operator == generationOf(m) {
		return m, nil, nil
	}
	if operator == "1" {
		return intoOperator1(m)
	}
	const op = "choose operator"
	major, _, _ := strings.Cut(strings.TrimPrefix(m.Source.Version, "v"), ".")
	version, _ := strconv.Atoi(major)
	switch {
	case len(m.Parts) > 0:
		return nil, nil, failure.New(failure.Usage, op, string(m.ID),
			"it is of a cluster in several Kubernetes clusters, which is not restored into TiDB Operator 2.x").
			WithHint("restore it where TiDB Operator 1.x is installed, without --operator")
	case version < firstOfOperator2:
		return nil, nil, failure.New(failure.Unready, op, string(m.ID),
			"its cluster is of version %s, and TiDB Operator 2.x runs %d.0 and later", m.Source.Version,
			firstOfOperator2).
			WithHint("restore it into TiDB Operator 1.x, upgrade that, and back it up again")
	}
	made, err := operator2.Translate(m.Kubernetes.TidbCluster, m.Kubernetes.PVCs)
	if err != nil {
		return nil, nil, err
	}
	translated := *m
	translated.Kubernetes = manifest.Kubernetes{Objects: made.Objects, PVCs: made.Claims, PVs: m.Kubernetes.PVs}
	return &translated, made.Lost, nil
}

// intoOperator1 is forOperator of a backup of 2.x. All stores get one configuration: with it, each must find its data.
func intoOperator1(m *manifest.Manifest) (_ *manifest.Manifest, lost []string, err error) {
	made, err := operator2.ToTidbCluster(m.Kubernetes.Objects, m.Kubernetes.PVCs)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range made.Configs {
		was, err := operator1.DataConfig(c.Source)
		if err != nil {
			return nil, nil, failure.Annotate(err, "choose operator", c.Group)
		}
		is, err := operator1.DataConfig(c.Target)
		if err != nil {
			return nil, nil, failure.Annotate(err, "choose operator", c.Group)
		}
		if !maps.Equal(was, is) {
			return nil, nil, failure.New(failure.Unready, "choose operator", string(m.ID),
				"TiDB Operator 1.x has one configuration for all stores, with %v: those of TiKVGroup %s have %v, and "+
					"could not open their data", is, c.Group, was).
				WithHint("restore it into TiDB Operator 2.x")
		}
	}
	translated := *m
	translated.Kubernetes = manifest.Kubernetes{TidbCluster: made.Object, PVCs: made.Claims, PVs: m.Kubernetes.PVs}
	translated.Source.Stores = slices.Clone(m.Source.Stores)
	for i := range translated.Source.Stores {
		of := &translated.Source.Stores[i]
		of.Volumes = slices.Clone(of.Volumes)
		for j := range of.Volumes {
			of.Volumes[j].PVC = made.Renamed[of.Volumes[j].PVC]
		}
	}
	return &translated, made.Lost, nil
}

// generationOf is the generation of TiDB Operator that made the backup's cluster.
func generationOf(m *manifest.Manifest) string {
	if m.Kubernetes.Operator() == manifest.Operator2 {
		return "2"
	}
	return "1"
}

// operatorOf chooses the generation of TiDB Operator of the target: the user's choice, or that of the cluster if it
// exists, or the source's, unless only the other one is installed. Of a cluster that the run never makes, only the
// source's objects count.
func (r *run) operatorOf(ctx context.Context, s *phase.Scope, m *manifest.Manifest) (string, error) {
	is := generationOf(m)
	chosen, why, err := r.target.operator(ctx, is)
	if err != nil {
		return "", failure.Annotate(err, "choose operator", r.opts.Target.String())
	}
	if chosen != is && why != "" {
		r.warn(s, fmt.Sprintf("the backup's cluster is of TiDB Operator %s.x, and is restored into %s.x: %s", is,
			chosen, why))
	}
	return chosen, nil
}

// operator returns the generation of TiDB Operator that is to run the target, and why, if that is neither the user's
// choice nor simply the source's.
func (t *target) operator(ctx context.Context, source string) (chosen, why string, err error) {
	if t.opts.Operator != "" || t.existing {
		return cmp.Or(t.opts.Operator, source), "", nil
	}
	return t.kube.OperatorOf(ctx, t.opts.Target, source)
}
