package tikvtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// identify settles cluster id, store id and mode from the data device and PD.
func (s *Store) identify(ctx context.Context, freshLog bool) error {
	boot, err := s.askBootstrapped(ctx)
	if err != nil {
		return err
	}
	s.clusterID = boot.GetHeader().GetClusterId()
	marked, err := s.pd.IsSnapshotRecovering(ctx, &pdpb.IsSnapshotRecoveringRequest{Header: s.header()})
	if err != nil {
		s.logf("tikv: snapshot recovery mode not known, starting normally: %v", err)
	}
	s.recovering = marked.GetMarked()
	switch {
	case s.data.storeID == 0 && s.recovering:
		return errors.New("no store ident on the data volume: a store in recovery mode needs the data of a backup")
	case s.data.storeID == 0:
		if s.id, err = s.allocID(ctx); err != nil {
			return err
		}
		return s.data.setIdent(s.clusterID, s.id)
	case freshLog:
		return errors.New("no raft engine on the raft-log volume")
	}
	s.id = s.data.storeID
	if s.data.clusterID == s.clusterID {
		return nil
	}
	if !s.recovering {
		return fmt.Errorf("cluster id mismatch, local %d != remote %d; the data belong to another cluster", s.data.clusterID, s.clusterID)
	}
	return s.data.setIdent(s.clusterID, s.id)
}

// askBootstrapped waits for PD to answer, as a store that starts before PD does.
func (s *Store) askBootstrapped(ctx context.Context) (*pdpb.IsBootstrappedResponse, error) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		boot, err := s.pd.IsBootstrapped(ctx, &pdpb.IsBootstrappedRequest{Header: s.header()})
		if err == nil {
			return boot, nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("ask pd: %w (last answer: %w)", ctx.Err(), err)
		}
	}
}

func (s *Store) header() *pdpb.RequestHeader { return &pdpb.RequestHeader{ClusterId: s.clusterID} }

func (s *Store) allocID(ctx context.Context) (uint64, error) {
	resp, err := s.pd.AllocID(ctx, &pdpb.AllocIDRequest{Header: s.header(), Count: 1})
	if err := pdError(resp.GetHeader(), err); err != nil {
		return 0, fmt.Errorf("alloc id: %w", err)
	}
	return resp.GetId(), nil
}

// pdError joins the two ways in which PD refuses.
func pdError(h *pdpb.ResponseHeader, err error) error {
	if err != nil {
		return err
	}
	if e := h.GetError(); e != nil && e.Type != pdpb.ErrorType_OK {
		return fmt.Errorf("pd: %s: %s", e.Type, e.Message)
	}
	return nil
}

// join registers the store with PD, if PD is bootstrapped. In recovery mode whoever comes first bootstraps PD with
// a region that exists in PD only.
func (s *Store) join(ctx context.Context) error {
	boot, err := s.askBootstrapped(ctx)
	if err != nil {
		return err
	}
	if !boot.GetBootstrapped() {
		if !s.recovering {
			return nil
		}
		if err := s.bootstrapPD(ctx); err != nil {
			return err
		}
	}
	if s.recovering {
		if err := s.awaitFirstRegion(ctx); err != nil {
			return err
		}
	}
	return s.putStore(ctx)
}

// bootstrapTries is how often a store asks for PD's region of the first key before it goes without it.
const bootstrapTries = 60

// awaitFirstRegion is the end of TiKV's bootcluster (tikv/tikv, components/snap_recovery/src/init_cluster.rs): a store that
// finds PD bootstrapped waits for its region of the first key. There is none while a region that elected itself has
// displaced the one that PD was bootstrapped with.
func (s *Store) awaitFirstRegion(ctx context.Context) error {
	ticker := time.NewTicker(s.opts.BootstrapRetry)
	defer ticker.Stop()
	for range bootstrapTries {
		first, err := s.pd.GetRegion(ctx, &pdpb.GetRegionRequest{Header: s.header()})
		if err == nil && first.GetRegion() != nil {
			return nil
		}
		s.logf("tikv store %d: bootstrap cluster failure; RegionNotFound", s.id)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for pd's first region: %w", ctx.Err())
		}
	}
	return nil
}

func (s *Store) bootstrapPD(ctx context.Context) error {
	region, err := newRegion(ctx, nil, nil, s)
	if err != nil {
		return err
	}
	resp, err := s.pd.Bootstrap(ctx, &pdpb.BootstrapRequest{Header: s.header(), Store: s.meta(), Region: region})
	if resp.GetHeader().GetError().GetType() == pdpb.ErrorType_ALREADY_BOOTSTRAPPED {
		return nil // another store was first
	}
	if err := pdError(resp.GetHeader(), err); err != nil {
		return fmt.Errorf("bootstrap pd: %w", err)
	}
	return nil
}

// meta is the store as PD knows it.
func (s *Store) meta() *metapb.Store {
	address := s.advertised(s.Addr())
	return &metapb.Store{
		Id: s.id, Address: address, PeerAddress: address, StatusAddress: s.advertised(s.statusAddr), Version: s.version(),
		Labels: s.cfg.Labels, StartTimestamp: s.startTime().Unix(), DeployPath: "/",
	}
}

// advertised is an address as PD is to know it.
func (s *Store) advertised(address string) string {
	if s.cfg.Advertise == "" || address == "" {
		return address
	}
	_, port, _ := net.SplitHostPort(address) // it is listened on
	return net.JoinHostPort(s.cfg.Advertise, port)
}

// startTime is when the store reports it was started. A static store reports that it has run for long.
func (s *Store) startTime() time.Time {
	if s.opts.Static {
		return s.startedAt.Add(-24 * time.Hour)
	}
	return s.startedAt
}

func (s *Store) putStore(ctx context.Context) error {
	if err := s.strikeAt(ctx, "PutStore").before(); err != nil {
		return fmt.Errorf("put store: %w", err)
	}
	resp, err := s.pd.PutStore(ctx, &pdpb.PutStoreRequest{Header: s.header(), Store: s.meta()})
	if err := pdError(resp.GetHeader(), err); err != nil {
		return fmt.Errorf("put store: %w", err)
	}
	s.net.join(s)
	return nil
}
