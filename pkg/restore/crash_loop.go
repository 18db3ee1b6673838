package restore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// maxRestarts is how often a pod of an awaited store may restart: with the kubelet's back-off the fourth restart is two
// and a half minutes after the first exit. A TiKV that crashes so often will not come up.
const maxRestarts = 4

// crashWatch ends the wait for stores if one of them cannot come up. It checks every few seconds.
type crashWatch struct {
	r     *run
	asked time.Time
}

// check returns a permanent error if the pod of a required store is in a crash loop. If Kubernetes does not answer it
// retries later.
func (w *crashWatch) check(ctx context.Context) error {
	r := w.r
	if time.Since(w.asked) < explainInterval {
		return nil
	}
	w.asked = time.Now()
	loops, err := r.target.crashLoops(ctx)
	if err != nil {
		return nil //nolint:nilerr // the wait reports what blocks it
	}
	stores := r.storesByOrdinal()
	var texts []string
	var without []cluster.StoreID
	var example string
	for _, loop := range loops {
		if loop.Ordinal < 0 || loop.Ordinal >= len(stores) {
			continue // pollCluster reports it
		}
		id := stores[loop.Ordinal]
		if slices.Contains(r.opts.TolerateStores, id) {
			continue
		}
		texts = append(texts, crashText(loop, id))
		without = append(without, id)
		example = cmp.Or(example, loop.Pod)
	}
	if len(texts) == 0 {
		return nil
	}
	target := r.opts.Target
	e := failure.New(failure.Corrupt, "check the pods", target.String(), "%s", strings.Join(texts, "; "))
	logs := fmt.Sprintf("see its log: kubectl -n %s logs %s -c tikv --previous", target.Namespace, example)
	if len(texts)+len(r.opts.TolerateStores) == len(stores) {
		return e.WithHint("%s", logs)
	}
	switch v := r.canDoWithout(ctx, without); {
	case !v.Known:
		return e.WithHint("%s; if every region has a quorum on the others, which is checked: %s", logs,
			r.commandWithout(without))
	case v.Refused != nil:
		return e.WithHint("%s; the cluster cannot do without: %s", logs, failure.Line(v.Refused.Error()))
	}
	return e.WithHint("%s; every region has a quorum on the others: %s", logs, r.commandWithout(without))
}

// crashLoops lists the pods in a crash loop; none without Kubernetes.
func (t *target) crashLoops(ctx context.Context) ([]kube.CrashLoop, error) {
	if t.kube == nil {
		return nil, nil
	}
	return t.kube.CrashLoops(ctx, t.opts.Target, maxRestarts)
}

// crashText describes one pod.
func crashText(loop kube.CrashLoop, id cluster.StoreID) string {
	text := fmt.Sprintf("TiKV of store %s ends as soon as it is started: pod %s was restarted %d times", id, loop.Pod,
		loop.Restarts)
	if loop.LastWords != "" {
		text += "; its last words: " + loop.LastWords
	}
	return text
}

// storesByOrdinal maps the ordinals of the target's pods to the backup's stores.
func (r *run) storesByOrdinal() []cluster.StoreID {
	var ids []cluster.StoreID
	for _, st := range volumes.ByOrdinal(r.backup.Source.Stores) {
		ids = append(ids, st.ID)
	}
	return ids
}
