package testbed

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Ports that an Operator 2.x expects on the addresses of its pods.
const (
	portOfPD   = "2379"
	portOfTiKV = "20160"
	portOfTiDB = "10080"
)

// addresses gives each pod an address of its own on loopback, and keeps the names that lead to it in a hosts file, as the DNS
// of a Kubernetes cluster has them: an Operator that is another process asks PD, and finds stores, by name and port. The zero
// value gives none.
type addresses struct {
	file string

	mu sync.Mutex
	of map[string]string // by name
	n  int
}

// next returns the address of whoever has these names, and whether there are addresses.
func (a *addresses) next(names ...string) (ip string, ok bool, err error) {
	if a.file == "" {
		return "", false, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = map[string]string{}
	}
	ip = a.of[names[0]]
	if ip == "" {
		a.n++
		ip = fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()%128, a.n/200, 1+a.n%200)
	}
	for _, name := range names {
		a.of[name], a.of[name+".svc"] = ip, ip
	}
	text := "127.0.0.1 localhost\n"
	for _, name := range slices.Sorted(maps.Keys(a.of)) {
		text += a.of[name] + " " + name + "\n"
	}
	return ip, true, os.WriteFile(a.file, []byte(text), 0o600) // in place: it may be mounted
}

// members are the pods of a component of a cluster of Operator 2.x, with their names and their groups.
func (k *Kubelet) members(name cluster.Name, component string) (pods, groups, instances []string) {
	for _, pod := range k.bed.Objects.List("pods", name.Namespace) {
		labels := pod.GetLabels()
		if labels["pingcap.com/cluster"] == name.Name && labels["pingcap.com/component"] == component {
			pods = append(pods, pod.GetName())
			groups = append(groups, labels["pingcap.com/group"])
			instances = append(instances, labels["pingcap.com/instance"])
		}
	}
	return pods, groups, instances
}

// addressPD has PD listen where its pod's name and its group's service lead, under the name of its instance.
func (k *Kubelet) addressPD(name cluster.Name) (addr, member string, err error) {
	pods, groups, instances := k.members(name, "pd")
	if len(pods) == 0 {
		return "", "", nil
	}
	ip, ok, err := k.addresses.next(
		pods[0]+"."+groups[0]+"-pd-peer."+name.Namespace, groups[0]+"-pd."+name.Namespace)
	if !ok || err != nil {
		return "", "", err
	}
	return net.JoinHostPort(ip, portOfPD), instances[0], nil
}

// serveTiDB answers for the pods of TiDB at /status, which is what an Operator takes for their health.
func (k *Kubelet) serveTiDB(ctx context.Context, c *Cluster) error {
	pods, groups, _ := k.members(c.Name, "tidb")
	names := make([]string, len(pods))
	for i := range pods {
		names[i] = pods[i] + "." + groups[i] + "-tidb-peer." + c.Name.Namespace
	}
	if len(names) == 0 {
		return nil
	}
	ip, ok, err := k.addresses.next(append([]string{"tidb." + c.Name.Name + "." + c.Name.Namespace}, names...)...)
	if !ok || err != nil || c.web != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip, portOfTiDB))
	if err != nil {
		return err
	}
	c.web = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case c.tidbReady() == 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.HasPrefix(r.URL.Path, "/info"):
			_, _ = w.Write([]byte(`{"labels":{}}`))
		case strings.HasPrefix(r.URL.Path, "/tidb-pool/"):
			_, _ = w.Write([]byte(`{"state":"activated"}`))
		}
	})}
	c.wg.Go(func() { _ = c.web.Serve(listener) })
	return nil
}
