package cage

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
)

const dnsPort = 53

// policies close the namespace: what they do not allow is refused, in both directions. Allowed are connections within
// it, those of DNS, those from the namespaces in the spec, and those of the Operator's discovery pods to the API
// server, without which PD does not start.
func policies(spec Spec, servers []netip.AddrPort) []*networkingv1.NetworkPolicy {
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	within := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}}
	from := []networkingv1.NetworkPolicyPeer{within}
	for _, namespace := range spec.From {
		from = append(from, networkingv1.NetworkPolicyPeer{NamespaceSelector: named(namespace)})
	}
	closed := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: objects},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: both,
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: from}},
			Egress:      []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{within}}, dns()},
		},
	}
	discovery := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: objects + "-discovery"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{
				"app.kubernetes.io/managed-by": "tidb-operator", "app.kubernetes.io/component": "discovery",
			}},
			PolicyTypes: both[1:],
		},
	}
	for _, server := range servers {
		discovery.Spec.Egress = append(discovery.Spec.Egress, networkingv1.NetworkPolicyEgressRule{
			To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{
				CIDR: netip.PrefixFrom(server.Addr(), server.Addr().BitLen()).String(),
			}}},
			Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, int(server.Port()))},
		})
	}
	return []*networkingv1.NetworkPolicy{closed, discovery}
}

// dns are the pods that answer it.
func dns() networkingv1.NetworkPolicyEgressRule {
	return networkingv1.NetworkPolicyEgressRule{
		To: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: named(metav1.NamespaceSystem),
			PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}},
		}},
		Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, dnsPort), port(corev1.ProtocolTCP, dnsPort)},
	}
}

// named selects a namespace by the label that the API server itself keeps.
func named(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

func port(protocol corev1.Protocol, number int) networkingv1.NetworkPolicyPort {
	n := intstr.FromInt(number)
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &n}
}

// apiServers are the addresses behind the service kubernetes: policies are about addresses of endpoints.
func (c *Cages) apiServers(ctx context.Context) ([]netip.AddrPort, error) {
	const op, service = "find the API server's addresses", "kubernetes"
	slices, err := c.core.EndpointSlices(metav1.NamespaceDefault).List(ctx,
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, kubeerr.Wrap(err, op, "service "+service)
	}
	var out []netip.AddrPort
	for _, s := range slices.Items {
		for _, p := range s.Ports {
			for _, e := range s.Endpoints {
				for _, address := range e.Addresses {
					ip, err := netip.ParseAddr(address)
					if err == nil && p.Port != nil {
						out = append(out, netip.AddrPortFrom(ip, uint16(*p.Port))) //nolint:gosec // a port
					}
				}
			}
		}
	}
	if len(out) == 0 {
		return nil, failure.New(failure.Unready, op, "service "+service, "it has no endpoint slice with an address")
	}
	return out, nil
}
