package operator2

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

const (
	pdGroupKind   = "PDGroup"
	tikvGroupKind = "TiKVGroup"
	tidbGroupKind = "TiDBGroup"
)

// unsteady returns why a cluster cannot be backed up now: it is being deleted, the Operator does not act on it, or the
// Operator is changing PD or TiKV. nil if it can.
func unsteady(name cluster.Name, c *clusterDoc, groups []groupDoc, stores []tikvDoc) error {
	refuse := func(format string, args ...any) *failure.Error {
		return failure.New(failure.Unready, "check cluster", name.String(), format, args...)
	}
	patch := "kubectl -n " + name.Namespace + " patch clusters.core.pingcap.com " + name.Name + " --type merge -p "
	switch {
	case c.DeletionTimestamp != nil:
		return refuse("it is being deleted").WithHint("back up a cluster that stays")
	case c.Spec.SuspendAction.SuspendCompute:
		return refuse("it is suspended: its pods are deleted").
			WithHint("resume it: %s", patch+`'{"spec":{"suspendAction":null}}'`)
	case c.Spec.Paused:
		return refuse("it is paused: what the Operator reports of it may be out of date").
			WithHint("end the pause: %s", patch+`'{"spec":{"paused":false}}'`)
	}
	const again = "run it again when the Operator has finished: kubectl -n %s get pdgroups,tikvgroups,tikvs"
	for i := range groups {
		if why := groups[i].changing(stores); why != "" {
			return refuse("%s %s %s", groups[i].Kind, groups[i].Name, why).WithHint(again, name.Namespace)
		}
	}
	of := map[cluster.StoreID]string{}
	for i := range stores {
		s := &stores[i]
		if why := s.changing(); why != "" {
			return refuse("TiKV %s %s", s.Name, why).WithHint(again, name.Namespace)
		}
		if other := of[s.id()]; other != "" {
			return refuse("TiKV %s and TiKV %s have the same store id %s", other, s.Name, s.Status.ID).
				WithHint(again, name.Namespace)
		}
		of[s.id()] = s.Name
	}
	return nil
}

// changing returns what the Operator is doing to a group of PD or TiKV; "" if nothing.
func (g *groupDoc) changing(stores []tikvDoc) string {
	if g.Kind != pdGroupKind && g.Kind != tikvGroupKind {
		return "" // nothing of it is in a backup
	}
	if why := g.Status.changing(&g.ObjectMeta); why != "" || g.Kind == pdGroupKind {
		return why
	}
	has := 0
	for i := range stores {
		if stores[i].Labels[groupLabel] == g.Name {
			has++
		}
	}
	if has != g.Spec.Replicas {
		return "is being scaled"
	}
	return ""
}

// changing returns what the Operator is doing to a store; "" if nothing.
func (s *tikvDoc) changing() string {
	offlined := slices.Contains(s.Status.Conditions, condition{"Offlined", string(metav1.ConditionTrue)})
	switch {
	case s.Spec.Offline, offlined, s.Status.State == "Removing", s.Status.State == "Removed":
		return "is being taken offline"
	case s.id() == 0:
		return "has no store id yet"
	}
	return s.Status.changing(&s.ObjectMeta)
}

// id returns the store's id; 0 if the Operator does not know it.
func (s *tikvDoc) id() cluster.StoreID {
	id, err := strconv.ParseUint(s.Status.ID, 10, 64)
	if err != nil {
		return 0
	}
	return cluster.StoreID(id)
}

// changing returns what the Operator is doing to an object; "" if nothing.
func (s *status) changing(of *metav1.ObjectMeta) string {
	switch {
	case of.DeletionTimestamp != nil:
		return "is being deleted"
	case s.ObservedGeneration != of.Generation:
		return "was changed, and the Operator has not acted on it yet"
	case s.UpdateRevision != s.CurrentRevision:
		return "is being updated"
	}
	return ""
}
