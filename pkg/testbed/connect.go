package testbed

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// connectPod connects to a port of a pod's process, as a port forward does: one of another pod refuses.
func (t *Testbed) connectPod(ctx context.Context, namespace, pod string, port int) (net.Conn, error) {
	labels := map[string]string{}
	if o := t.Objects.Get("pods", namespace, pod); o != nil {
		labels = o.GetLabels()
	}
	for _, c := range t.Nodes.all() {
		if c.Name.Namespace != namespace || !strings.HasPrefix(pod, c.Name.Name+"-") && labels["pingcap.com/cluster"] != c.Name.Name {
			continue
		}
		if component := labels["app.kubernetes.io/component"]; component == "tidb" && port == sqlPortOfPods {
			if address := c.SQL(); address != "" {
				return new(net.Dialer).DialContext(ctx, "tcp", address)
			}
		}
		for _, address := range c.addresses(pod, labels["app.kubernetes.io/component"]) {
			if _, has, err := net.SplitHostPort(address); err == nil && has == strconv.Itoa(port) {
				return new(net.Dialer).DialContext(ctx, "tcp", address)
			}
		}
	}
	return nil, fmt.Errorf("pod %s/%s: dial tcp4 127.0.0.1:%d: connect: connection refused", namespace, pod, port)
}

// addresses are those of the process in a pod; none if none runs.
func (c *Cluster) addresses(pod, component string) []string {
	if component == "pd" {
		return c.PD.Addrs()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.stores[pod]; s != nil && !gone(s) {
		return []string{s.Addr(), s.StatusAddr()}
	}
	return nil
}
