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
	for _, c := range t.Nodes.all() {
		if c.Name.Namespace != namespace || !strings.HasPrefix(pod, c.Name.Name+"-") {
			continue
		}
		for _, address := range c.addresses(pod) {
			if _, has, err := net.SplitHostPort(address); err == nil && has == strconv.Itoa(port) {
				return new(net.Dialer).DialContext(ctx, "tcp", address)
			}
		}
	}
	return nil, fmt.Errorf("pod %s/%s: dial tcp4 127.0.0.1:%d: connect: connection refused", namespace, pod, port)
}

// addresses are those of the process in a pod; none if none runs.
func (c *Cluster) addresses(pod string) []string {
	if strings.HasPrefix(pod, c.Name.Name+"-pd-") {
		return c.PD.Addrs()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.stores[pod]; s != nil && !gone(s) {
		return []string{s.Addr(), s.StatusAddr()}
	}
	return nil
}
