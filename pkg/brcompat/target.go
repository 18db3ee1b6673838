package brcompat

import (
	"net"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// target returns the cluster named by PD's address: "prod-pd.tidb:2379", as TiDB Operator writes it, is tidb/prod. Any
// other address stands for itself. Locks, tags and journals use this name.
func (c *Common) target() cluster.Name {
	address := slices.Min(c.PD)
	if _, after, ok := strings.Cut(address, "://"); ok {
		address = after
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if labels := strings.Split(host, "."); len(labels) > 1 && net.ParseIP(host) == nil {
		service, namespace := labels[0], labels[1]
		if strings.HasSuffix(namespace, "-peer") && len(labels) > 2 { // one pod: prod-pd-0.prod-pd-peer.tidb.svc
			service, namespace = strings.TrimSuffix(namespace, "-peer"), labels[2]
		}
		if name, ok := strings.CutSuffix(service, "-pd"); ok {
			if parsed, err := cluster.ParseName(namespace+"/"+name, ""); err == nil {
				return parsed
			}
		}
	}
	word := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(address))
	return cluster.Name{Namespace: "pd", Name: strings.Trim(word, "-")}
}
