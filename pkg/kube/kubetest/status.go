package kubetest

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// writeStatus writes the status of a TidbCluster with the fields that the real one has.
func (o *Operator) writeStatus(c *clusterState, spec clusterSpec) {
	r, _ := resourceByKind("TidbCluster")
	for {
		tc, exists := o.store.get(tidbClusters, spec.name.Namespace, spec.name.Name)
		if !exists || meta(tc).GetUID() != spec.uid {
			return
		}
		if _, set, _ := unstructured.NestedMap(tc, "spec", "tlsCluster"); !set {
			_ = unstructured.SetNestedMap(tc, object{}, "spec", "tlsCluster") // the Operator writes defaults into the spec
		}
		old, _, _ := unstructured.NestedMap(tc, "status")
		tc["status"] = o.status(c, spec, old)
		if _, err := o.store.update(r, tc, write{trusted: true}); !apierrors.IsConflict(err) {
			return
		}
	}
}

func (o *Operator) status(c *clusterState, spec clusterSpec, old object) object {
	pd := object{"phase": "Normal", "synced": c.pd.started, "image": spec.images["pd"], "statefulSet": setStatus(spec.pd, o.ready(spec, "pd", spec.pd))}
	copyField(pd, nested(old, "pd"), "members")
	copyField(pd, nested(old, "pd"), "leader")
	if !c.pd.running() && len(c.pdURL) > 0 {
		members := object{}
		for i, url := range c.pdURL {
			name := spec.pod("pd", i)
			members[name] = object{
				"name": name, "id": strconv.Itoa(i + 1), "clientURL": url, "health": c.pd.started,
				"lastTransitionTime": o.since(old, "pd", "members", name, "health", c.pd.started),
			}
		}
		pd["members"] = members
		pd["leader"] = members[spec.pod("pd", 0)]
	}
	tikv := object{"phase": "Normal", "synced": c.pd.started, "image": spec.images["tikv"]}
	copyField(tikv, nested(old, "tikv"), "failureStores")
	ready := o.ready(spec, "tikv", spec.tikv)
	if c.pods != nil {
		o.storeStatus(tikv, c, spec, old)
		tikv["statefulSet"] = setStatus(len(spec.ordinals()), ready)
		tikv["bootStrapped"] = ready > 0 || nested(old, "tikv")["bootStrapped"] == true
	}
	answering := 0
	if c.tidb.started {
		answering = o.runtime.TiDBReady(spec.name)
	}
	tidb := object{"phase": "Normal", "image": spec.images["tidb"]}
	if c.tidb.started {
		members := object{}
		for i := range spec.tidb {
			name := spec.pod("tidb", i)
			members[name] = object{
				"name": name, "health": i < answering,
				"lastTransitionTime": o.since(old, "tidb", "members", name, "health", i < answering),
			}
		}
		tidb["members"] = members
		tidb["statefulSet"] = setStatus(spec.tidb, answering)
	}
	return object{
		"clusterID": clusterID(spec), "pd": pd, "tikv": tikv, "tidb": tidb,
		"pump": object{}, "tiflash": object{}, "tiproxy": object{}, "ticdc": object{},
		"conditions": []any{o.condition(c, spec, ready, answering, old)},
	}
}

// storeStatus lists the stores that registered with PD, and the claims that are bound.
func (o *Operator) storeStatus(tikv object, c *clusterState, spec clusterSpec, old object) {
	stores := object{}
	for _, ordinal := range spec.ordinals() {
		pod := spec.pod("tikv", ordinal)
		p := c.pods[pod]
		if p == nil || p.storeID == 0 {
			continue
		}
		state := "Up"
		if !p.ready {
			state = "Disconnected"
		}
		id := p.storeID.String()
		store := object{
			"id": id, "podName": pod, "state": state,
			"ip":                 fmt.Sprintf("%s.%s-tikv-peer.%s.svc", pod, spec.name.Name, spec.name.Namespace),
			"lastTransitionTime": o.since(old, "tikv", "stores", id, "state", state),
			"leaderCount":        int64(0), // the definition demands it
		}
		if p.ready && !spec.recovery { // a store of a cluster in recovery mode leads nothing
			store["leaderCount"] = int64(1)
		}
		stores[id] = store
	}
	if len(stores) > 0 {
		tikv["stores"] = stores
	}
	byName := object{}
	for _, t := range spec.volumes {
		bound := int64(0)
		for _, ordinal := range spec.ordinals() {
			pvc, exists := typed[corev1.PersistentVolumeClaim](o.store, claims, spec.name.Namespace, t.claim(spec.pod("tikv", ordinal)))
			if exists && pvc.Status.Phase == corev1.ClaimBound {
				bound++
			}
		}
		size := fmt.Sprintf("%dGi", t.sizeGiB)
		byName[t.name] = object{
			"name": t.name, "boundCount": bound, "currentCount": bound, "modifiedCount": bound, "resizedCount": bound,
			"currentCapacity": size, "modifiedCapacity": size, "resizedCapacity": size,
			"currentStorageClass": t.class, "modifiedStorageClass": t.class,
		}
	}
	tikv["volumes"] = byName
}

// condition is the Ready condition, with the reasons of the real Operator.
func (o *Operator) condition(c *clusterState, spec clusterSpec, stores, tidb int, old object) object {
	status, reason, message := "False", "", ""
	switch {
	case !c.pd.started:
		reason, message = "PDUnhealthy", "PD(s) are not healthy"
	case stores < len(spec.ordinals()):
		reason, message = "TiKVStoreNotUp", "TiKV store(s) are not up"
	case tidb < spec.tidb:
		reason, message = "TiDBUnhealthy", "TiDB(s) are not healthy"
	default:
		status, reason, message = "True", "Ready", "TidbCluster is fully up and running"
	}
	now := o.timestamp()
	condition := object{
		"type": "Ready", "status": status, "reason": reason, "message": message,
		"lastUpdateTime": now, "lastTransitionTime": now,
	}
	list, _, _ := unstructured.NestedSlice(old, "conditions")
	if len(list) == 1 {
		if was, ok := list[0].(object); ok {
			if was["status"] == status {
				condition["lastTransitionTime"] = was["lastTransitionTime"]
				if was["reason"] == reason {
					condition["lastUpdateTime"] = was["lastUpdateTime"]
				}
			}
		}
	}
	return condition
}

// ready counts the ready pods of a component.
func (o *Operator) ready(spec clusterSpec, component string, replicas int) int {
	if component == "tikv" {
		replicas = 0
		for _, n := range spec.ordinals() {
			replicas = max(replicas, n+1)
		}
	}
	n := 0
	for i := range replicas {
		pod, exists := typed[corev1.Pod](o.store, pods, spec.name.Namespace, spec.pod(component, i))
		if !exists {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	return n
}

func setStatus(replicas, ready int) object {
	return object{
		"observedGeneration": int64(1), "replicas": int64(replicas), "currentReplicas": int64(replicas),
		"updatedReplicas": int64(replicas), "readyReplicas": int64(ready), "availableReplicas": int64(ready), "collisionCount": int64(0),
	}
}

// since keeps the time of the last transition while the value is the same.
func (o *Operator) since(old object, component, list, name, field string, value any) string {
	entry, _, _ := unstructured.NestedMap(old, component, list, name)
	if at, ok := entry["lastTransitionTime"].(string); ok && entry[field] == value {
		return at
	}
	return o.timestamp()
}

func (o *Operator) timestamp() string { return o.now().UTC().Format(time.RFC3339) }

func nested(o object, field string) object {
	m, _ := o[field].(object)
	if m == nil {
		return object{}
	}
	return m
}

// clusterID is a number like PD's, the same as long as the object lives.
func clusterID(spec clusterSpec) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(spec.name.String() + string(spec.uid)))
	return strconv.FormatUint(h.Sum64()>>1, 10)
}
