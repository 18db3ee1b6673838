package kubetest

import (
	"context"
	"net"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// coreCluster is a Cluster of TiDB Operator 2.x, as it is at the beginning of a step.
type coreCluster struct {
	name                  cluster.Name
	uid                   types.UID
	obj                   object
	paused, deleting, tls bool
	pd, id                string // of its status
}

func parseCore(obj object) coreCluster {
	m := meta(obj)
	c := coreCluster{
		name: cluster.Name{Namespace: m.GetNamespace(), Name: m.GetName()}, uid: m.GetUID(), obj: obj,
		deleting: m.GetDeletionTimestamp() != nil,
	}
	c.paused, _, _ = unstructured.NestedBool(obj, "spec", "paused")
	c.tls, _, _ = unstructured.NestedBool(obj, "spec", "tlsCluster", "enabled")
	c.pd, c.id = nestedText(obj, "status", "pd"), nestedText(obj, "status", "id")
	return c
}

// reconcileCore brings the clusters of Operator 2.x one step forward. A paused one does not change, even if it is being deleted:
// only the kubelet continues. A real control plane has the real Operator 2.x, if any: there it is the kubelet alone.
func (o *Operator) reconcileCore(ctx context.Context, present map[cluster.Name]bool) {
	list, _ := o.store.list(coreClusters, "")
	for _, obj := range list {
		cl := parseCore(obj)
		state := o.clusters[cl.name]
		if present[cl.name] || state != nil && state.uid != cl.uid {
			continue // the other one goes first
		}
		if state == nil {
			state = &clusterState{uid: cl.uid, core: true, pods: map[string]*podState{}, members: map[string]*podState{}}
			o.clusters[cl.name] = state
		}
		present[cl.name] = true
		o.runStores(ctx, state, cl)
		switch {
		case o.objects.controlled:
			o.runMembers(ctx, state, cl)
		case !cl.paused:
			o.reconcileCoreCluster(ctx, state, cl)
		}
	}
	if !o.objects.controlled {
		o.collectDangling()
	}
}

func (o *Operator) reconcileCoreCluster(ctx context.Context, c *clusterState, cl coreCluster) {
	groups := 0
	for _, k := range coreKinds() {
		for _, g := range o.ofCluster(cl, k.groups) {
			groups++
			if cl.deleting {
				_, _ = o.store.remove(resourceNamed(k.groups), cl.name.Namespace, meta(g).GetName(), metav1.DeleteOptions{})
			}
		}
	}
	o.change(coreClusters, cl.obj, func(m *unstructured.Unstructured) {
		if !cl.deleting {
			m.SetFinalizers([]string{coreFinalizer})
		} else if groups == 0 {
			m.SetFinalizers(nil)
		}
	})
	for _, k := range coreKinds()[:3] { // the others are only kept
		for _, g := range o.ofCluster(cl, k.groups) {
			o.reconcileGroup(c, cl, k, g)
		}
		for _, in := range o.ofCluster(cl, k.instances) {
			o.reconcileInstance(ctx, c, cl, k, in)
		}
	}
	o.startMembers(ctx, c, cl)
	o.writeCoreStatus(c, cl)
}

// ofCluster lists the objects of a resource whose spec names the cluster.
func (o *Operator) ofCluster(cl coreCluster, res string) []object {
	list, _ := o.store.list(res, cl.name.Namespace)
	var found []object
	for _, obj := range list {
		if nestedText(obj, "spec", "cluster", "name") == cl.name.Name {
			found = append(found, obj)
		}
	}
	return found
}

// change changes an object as it is now, unless it is gone.
func (o *Operator) change(res string, obj object, f func(*unstructured.Unstructured)) {
	for {
		now, exists := o.store.get(res, meta(obj).GetNamespace(), meta(obj).GetName())
		if !exists || meta(now).GetUID() != meta(obj).GetUID() {
			return
		}
		f(meta(now))
		if _, err := o.store.update(resourceNamed(res), now, write{trusted: true}); !apierrors.IsConflict(err) {
			return
		}
	}
}

// log logs a line, once.
func (o *Operator) log(line string) {
	if o.logged[line] {
		return
	}
	o.logged[line] = true
	if o.cfg.Logf != nil {
		o.cfg.Logf("%s", line)
	}
}

// startMembers starts PD, and TiDB once PD is there; their pods are made with their instances.
func (o *Operator) startMembers(ctx context.Context, c *clusterState, cl coreCluster) {
	begin := func(m *component, what string, replicas int, f func(context.Context) error) {
		if m.running() || m.started && m.replicas == replicas || o.finished(m, clusterSpec{name: cl.name}, what) || o.early(m.retryAt) {
			return
		}
		m.replicas = replicas
		m.job = o.start(ctx, f)
	}
	if n := o.mounted(cl, "pd"); n > 0 {
		begin(&c.pd, "PD", n, func(ctx context.Context) error {
			urls, err := o.runtime.StartPD(ctx, cl.name, n)
			if err == nil {
				c.pdURL = urls // read only after the job is done
			}
			return err
		})
	}
	n := o.mounted(cl, "tidb")
	switch {
	case n > 0 && cl.pd != "" && !o.early(c.pd.servesAt.Add(o.cfg.Resync)):
		begin(&c.tidb, "TiDB", n, func(ctx context.Context) error { return o.runtime.StartTiDB(ctx, cl.name, n) })
	case n == 0 && c.tidb.started:
		o.runtime.StopTiDB(cl.name)
		c.tidb = component{}
	}
}

// mounted counts the pods of a component that have the secrets that they mount.
func (o *Operator) mounted(cl coreCluster, component string) int {
	n := 0
	list, _ := o.store.list(pods, cl.name.Namespace)
	for _, pod := range list {
		labels := meta(pod).GetLabels()
		spec := clusterSpec{name: cl.name, tls: cl.tls, secrets: labels[groupLabel]}
		if labels[clusterLabel] == cl.name.Name && labels[componentLabel] == component && o.missingSecret(spec, component) == "" &&
			(!o.objects.controlled || nestedText(pod, "spec", "nodeName") != "") {
			n++
		}
	}
	return n
}

// collectDangling drops what an object of Operator 2.x owned that is not there, as the garbage collector does.
func (o *Operator) collectDangling() {
	kinds := []string{claims, pods, "configmaps", services}
	for _, k := range coreKinds() {
		kinds = append(kinds, k.instances)
	}
	for _, res := range kinds {
		list := o.store.peekAll(res, "")
		for _, obj := range list {
			owner := metav1.GetControllerOf(meta(obj))
			if owner == nil || owner.APIVersion != coreGroup+"/v1alpha1" {
				continue
			}
			r, _ := resourceByKind(owner.Kind)
			of, exists := o.store.peek(r.name, meta(obj).GetNamespace(), owner.Name)
			if !exists || meta(of).GetUID() != owner.UID {
				_, _ = o.store.remove(resourceNamed(res), meta(obj).GetNamespace(), meta(obj).GetName(), metav1.DeleteOptions{})
			}
		}
	}
}

// writeCoreStatus writes the status of a Cluster. Its PD is set once and stays.
func (o *Operator) writeCoreStatus(c *clusterState, cl coreCluster) {
	components, available, ready := []any{}, false, true
	for _, k := range coreKinds() {
		replicas := int64(0)
		groups := o.ofCluster(cl, k.groups)
		for _, g := range groups {
			n, _, _ := unstructured.NestedInt64(g, "spec", "replicas")
			replicas += n
			available = available || isTrue(g, "Available")
			ready = ready && isTrue(g, "Ready")
		}
		if len(groups) > 0 {
			components = append(components, object{"kind": k.instance, "replicas": replicas})
		}
	}
	o.change(coreClusters, cl.obj, func(m *unstructured.Unstructured) {
		status := nested(m.Object, "status")
		status["observedGeneration"], status["components"] = m.GetGeneration(), components
		if nestedText(status, "pd") == "" && c.pd.started {
			status["pd"] = o.pdService(cl, c.pdURL[0])
		}
		if id := o.runtime.ClusterID(cl.name); nestedText(status, "id") == "" && c.pd.started && id != 0 {
			status["id"] = strconv.FormatUint(id, 10)
		}
		status["conditions"] = o.conditions(status, m.GetGeneration(),
			condition{"Progressing", true, "ClusterCreation"}, condition{"Available", available, "ClusterAvailable"},
			condition{"Ready", ready && len(components) > 0, "ClusterReady"}, condition{"Suspended", false, "ClusterSuspend"})
		m.Object["status"] = status
	})
}

// pdService is the URL of the service before a PD that advertises the name of its pod; one that advertises the address that
// it listens on stays.
func (o *Operator) pdService(cl coreCluster, advertised string) string {
	u, err := url.Parse(advertised)
	groups := o.ofCluster(cl, coreKinds()[0].groups)
	if err != nil || net.ParseIP(u.Hostname()) != nil || len(groups) == 0 {
		return advertised
	}
	u.Host = net.JoinHostPort(meta(groups[0]).GetName()+"-pd."+cl.name.Namespace, u.Port())
	return u.String()
}

// condition is the content of a condition of Operator 2.x.
type condition struct {
	kind   string
	is     bool
	reason string
}

// conditions are those of a status, with when each became what it is.
func (o *Operator) conditions(status object, generation int64, now ...condition) []any {
	was, _, _ := unstructured.NestedSlice(status, "conditions")
	list := make([]any, 0, len(now))
	for _, n := range now {
		text := "False"
		if n.is {
			text = "True"
		}
		since := o.timestamp()
		for _, w := range was {
			if nestedText(w, "type") == n.kind && nestedText(w, "status") == text {
				since = nestedText(w, "lastTransitionTime")
			}
		}
		list = append(list, object{
			"type": n.kind, "status": text, "reason": n.reason, "message": "", "observedGeneration": generation, "lastTransitionTime": since,
		})
	}
	return list
}

// isTrue reports whether a condition of an object is.
func isTrue(obj object, kind string) bool {
	list, _, _ := unstructured.NestedSlice(obj, "status", "conditions")
	for _, c := range list {
		if nestedText(c, "type") == kind {
			return nestedText(c, "status") == "True"
		}
	}
	return false
}
