package operator1

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// serviceFields are the service settings that only one service can have.
func serviceFields() []string {
	return []string{
		"clusterIP", "clusterIPs", "externalIPs", "loadBalancerIP", "mysqlNodePort", "nodePort", "statusNodePort",
		"healthCheckNodePort",
	}
}

// unique reports whether an annotation gives its service or pod a name or address that no other can share. Settings of
// how a load balancer is created are kept: without "internal" the copy would be public.
func unique(annotation string) bool {
	if strings.HasPrefix(annotation, "external-dns.") || strings.Contains(annotation, "ingress.kubernetes.io/") {
		return true
	}
	_, setting, _ := strings.Cut(annotation, "-load-balancer-")
	return slices.Contains([]string{"name", "eip-allocations", "private-ipv4-addresses", "ipv6-addresses"}, setting)
}

// dropServiceSettings removes settings of any component that clash with the source's: node ports, which the API server
// would reject, host names, which external-dns would point to the copy, and names and addresses of load balancers. It
// returns the paths of the removed settings, in order.
func dropServiceSettings(spec map[string]any) []string {
	var dropped []string
	drop := func(in map[string]any, key, path string) {
		if value, has := in[key]; has {
			delete(in, key)
			dropped = append(dropped, fmt.Sprintf("%s.%s (%v)", path, key, value))
		}
	}
	annotations := func(of map[string]any, path string) {
		list, _ := of["annotations"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(list)) {
			if unique(key) {
				drop(list, key, path+".annotations")
			}
		}
	}
	service := func(s map[string]any, path string) {
		for _, field := range serviceFields() {
			drop(s, field, path)
		}
		annotations(s, path)
		for _, list := range []string{"additionalPorts", "ports"} {
			ports, _ := s[list].([]any)
			for i, p := range ports {
				if port, ok := p.(map[string]any); ok {
					drop(port, "nodePort", fmt.Sprintf("%s.%s[%d]", path, list, i))
				}
			}
		}
	}
	annotations(spec, "spec")
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		component, _ := spec[name].(map[string]any)
		path := "spec." + name
		annotations(component, path)
		for _, field := range []string{"service", "gatewayService", "headlessService"} {
			if s, ok := component[field].(map[string]any); ok {
				service(s, path+"."+field)
			}
		}
	}
	services, _ := spec["services"].([]any)
	for i, s := range services {
		if s, ok := s.(map[string]any); ok {
			service(s, fmt.Sprintf("spec.services[%d]", i))
		}
	}
	return dropped
}
