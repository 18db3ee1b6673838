package restore

import (
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// firstOfOperator2 is the first major version of TiDB that TiDB Operator 2.x runs
// (https://docs.pingcap.com/tidb-in-kubernetes/v2.0/tidb-operator-overview).
const firstOfOperator2 = 8

// forOperator returns the manifest with the cluster's objects as the Operator has them that is to run the target, and
// which of their fields it does not carry over.
func forOperator(operator string, m *manifest.Manifest) (_ *manifest.Manifest, lost []string, err error) {
	const op = "choose operator"
	is := m.Kubernetes.Operator()
	major, _, _ := strings.Cut(strings.TrimPrefix(m.Source.Version, "v"), ".")
	version, _ := strconv.Atoi(major)
	switch {
	case operator == "", operator == "1" && is == "", operator == "2" && is == manifest.Operator2:
		return m, nil, nil
	case operator == "1":
		return nil, nil, failure.New(failure.Usage, op, string(m.ID),
			"its cluster is of TiDB Operator %s, and is not restored into 1.x", is).
			WithHint("omit --operator")
	case len(m.Parts) > 0:
		return nil, nil, failure.New(failure.Usage, op, string(m.ID),
			"it is of a cluster in several Kubernetes clusters, which is not restored into TiDB Operator 2.x").
			WithHint("omit --operator")
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
