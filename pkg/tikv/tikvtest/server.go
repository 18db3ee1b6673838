package tikvtest

import (
	"math"
	"time"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/debugpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// newServer makes the gRPC server with the services of the store's mode.
func (s *Store) newServer() *grpc.Server {
	var creds credentials.TransportCredentials
	if s.cfg.TLS != nil {
		creds = credentials.NewTLS(s.cfg.TLS)
	}
	server := grpc.NewServer(
		grpc.Creds(creds), grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(math.MaxInt32), grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(math.MaxUint32),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	if !s.opts.Static {
		tikvpb.RegisterTikvServer(server, &kvService{s: s})
	}
	backup.RegisterBackupServer(server, &prepareService{s: s})
	if !s.opts.NoDebug {
		debugpb.RegisterDebugServer(server, &debugService{s: s})
	}
	import_sstpb.RegisterImportSSTServer(server, &importService{s: s})
	if s.recovering {
		recoverdata.RegisterRecoverDataServer(server, &recoverService{s: s})
	} else {
		recoverdata.RegisterRecoverDataServer(server, &normalMode{})
	}
	healthpb.RegisterHealthServer(server, health.NewServer()) // client-go asks it whether a store lives
	return server
}
