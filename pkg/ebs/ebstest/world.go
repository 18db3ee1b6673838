package ebstest

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// World is several accounts and regions side by side, with one clock: snapshots are shared between the accounts and
// copied between the regions, and no id exists twice. It is safe for concurrent use.
type World struct {
	servers []*Server

	mu   sync.Mutex // guards the state of all servers
	next uint64     // of ids
	// roles are those that may be assumed, by ARN, with their external ids.
	roles map[string]string
}

// NewWorld makes one Server of each configuration, in their order. All have the clock of the first.
func NewWorld(configs ...Config) *World {
	w := &World{roles: map[string]string{}}
	for _, cfg := range configs {
		cfg.Clock = configs[0].Clock
		w.servers = append(w.servers, newServer(w, cfg))
	}
	return w
}

// Servers lists them in the order of their configurations.
func (w *World) Servers() []*Server { return slices.Clone(w.servers) }

// Start starts all servers, or none.
func (w *World) Start() error {
	for _, s := range w.servers {
		if err := s.Start(); err != nil {
			w.Close()
			return errors.Join(errors.New("start the world"), err)
		}
	}
	return nil
}

// Close closes all servers.
func (w *World) Close() {
	for _, s := range w.servers {
		s.Close()
	}
}

// at is an account in a region, or nil.
func (w *World) at(account, region string) *Server {
	for _, s := range w.servers {
		if s.cfg.Account == account && s.cfg.Region == region {
			return s
		}
	}
	return nil
}

// snapshotsIn lists all snapshots of a region, of all accounts, by id.
func (w *World) snapshotsIn(region string) []*snapshot {
	all := map[cluster.SnapshotID]*snapshot{}
	for _, s := range w.servers {
		if s.cfg.Region != region {
			continue
		}
		for id, p := range s.snapshots {
			all[id] = p
		}
	}
	return sorted(all)
}

// keyHome is where a KMS key lives: in the account and region that its ARN names, if this world has it; a key by any
// other name is the caller's own.
func (s *Server) keyHome(key string) *Server {
	parts := strings.SplitN(key, ":", 6) // arn:aws:kms:REGION:ACCOUNT:key/ID
	if len(parts) == 6 && parts[2] == "kms" {
		if home := s.world.at(parts[4], parts[3]); home != nil {
			return home
		}
	}
	return s
}

// canUse reports whether this account can encrypt and decrypt with a key in this region: its own, or one that another
// account has shared with it, as long as the key is enabled.
func (s *Server) canUse(key string) bool {
	home := s.keyHome(key)
	return home.cfg.Region == s.cfg.Region && home.usableBy(key, s.cfg.Account)
}

// usableBy reports whether an account can use a key of this one.
func (s *Server) usableBy(key, account string) bool {
	use := s.key(key)
	return use.usable() && (account == s.cfg.Account || use.sharedWith[account])
}
