package cluster

import (
	"net"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// AddressMap maps addresses of PD and the stores for use outside the Kubernetes cluster, where its DNS names do not
// resolve. It only changes what is dialled: names in TLS, in messages and in PD stay the same. The zero value changes
// nothing. It is immutable, and safe for concurrent use.
type AddressMap struct{ to map[string]string }

// ParseAddressMap parses entries NAME=ADDRESS: NAME is a host name, and ADDRESS an IP address or host name, each
// optionally with a port. An entry with the name's port takes precedence over one without. Anything else, or a name
// with two addresses, is a Usage error.
func ParseAddressMap(entries []string) (AddressMap, error) {
	m := AddressMap{to: map[string]string{}}
	for _, entry := range entries {
		name, address, found := strings.Cut(strings.TrimSpace(entry), "=")
		name, address = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(address)
		if !found || !isAddress(name) || !isAddress(address) {
			return AddressMap{}, failure.New(failure.Usage, "read address", entry,
				"want NAME=IP, or NAME:PORT=HOST:PORT")
		}
		if was, twice := m.to[name]; twice && was != address {
			return AddressMap{}, failure.New(failure.Usage, "read address", entry, "%s is at %s already", name, was)
		}
		m.to[name] = address
	}
	return m, nil
}

// isAddress reports whether a text is a host name or IP address, with or without a port.
func isAddress(text string) bool {
	if text == "" || strings.ContainsAny(text, "/=, \t") {
		return false
	}
	host, port := splitPort(text)
	return host != "" && (port != "" || !strings.HasSuffix(text, ":")) &&
		(!strings.Contains(host, ":") || net.ParseIP(host) != nil)
}

// splitPort is net.SplitHostPort for an address with an optional port.
func splitPort(address string) (host, port string) {
	if host, port, err := net.SplitHostPort(address); err == nil {
		return host, port
	}
	return strings.Trim(address, "[]"), ""
}

// Len is the number of entries.
func (m AddressMap) Len() int { return len(m.to) }

// Dial returns the host:port to connect to for address, a host:port of PD or a store. The port is kept unless the entry
// has one. An address that is not in the map is returned unchanged.
func (m AddressMap) Dial(address string) string {
	host, port := splitPort(address)
	to, found := m.to[strings.ToLower(address)]
	if !found {
		if to, found = m.to[strings.ToLower(host)]; !found {
			return address
		}
	}
	toHost, toPort := splitPort(to)
	if toPort == "" {
		toPort = port
	}
	return net.JoinHostPort(toHost, toPort)
}
