package flashstore

import (
	"context"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/tisnap/tisnap/pkg/wait"
)

// backupService serves outside recovery mode, for callers that ask which regions the store leads.
type backupService struct {
	backup.UnimplementedBackupServer
	s *Store
}

// CheckPendingAdminOp implements backup.BackupServer.
func (b *backupService) CheckPendingAdminOp(_ *backup.CheckAdminRequest, stream backup.Backup_CheckPendingAdminOpServer) error {
	for _, region := range b.s.Led() {
		if err := stream.Send(&backup.CheckAdminResponse{Region: region}); err != nil {
			return err
		}
	}
	return nil
}

// Led lists the regions that the store leads, by id.
func (s *Store) Led() []*metapb.Region {
	s.mu.Lock()
	defer s.mu.Unlock()
	var led []*metapb.Region
	for _, region := range s.cfg.Regions {
		if s.regions[region.Id].leads {
			led = append(led, region)
		}
	}
	return led
}

// elect makes the store lead what it led before its restart, when elections are over.
func (s *Store) elect(ctx context.Context) {
	if wait.For(ctx, s.cfg.Election) != nil {
		return
	}
	for _, region := range s.cfg.Regions {
		s.mu.Lock()
		st := s.regions[region.Id]
		st.leads = st.led
		leads := st.leads
		s.mu.Unlock()
		if leads && s.report(ctx, region) != nil {
			return // the process ends, or PD does
		}
	}
}
