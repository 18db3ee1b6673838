package tikvtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// importGate decides whether imports are denied. The zero value lets them pass.
type importGate struct {
	running atomic.Bool
	mu      sync.Mutex
	until   time.Time
}

// set denies imports for d, or allows them if d is not positive, and reports whether they were denied before.
func (g *importGate) set(now time.Time, d time.Duration) (denied bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	denied = g.until.After(now)
	g.until = time.Time{}
	if d > 0 {
		g.until = now.Add(d)
	}
	return denied
}

func (g *importGate) left(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, g.until.Sub(now))
}

// maxSuspension is how many seconds imports may be suspended for.
const maxSuspension = 21_600

// importService serves the part of import_sstpb.ImportSST that a hold uses. No SST is ever ingested.
type importService struct {
	import_sstpb.UnimplementedImportSSTServer
	s *Store
}

// SuspendImportRPC implements import_sstpb.ImportSSTServer.
func (i *importService) SuspendImportRPC(
	ctx context.Context, req *import_sstpb.SuspendImportRPCRequest,
) (*import_sstpb.SuspendImportRPCResponse, error) {
	k := i.s.strikeAt(ctx, "SuspendImportRPC")
	if err := k.before(); err != nil {
		return nil, err
	}
	if req.ShouldSuspendImports && req.DurationInSecs > maxSuspension {
		return nil, status.Error(codes.Unknown, "you are going to suspend the import RPCs too long")
	}
	var d time.Duration
	if req.ShouldSuspendImports {
		d = time.Duration(req.DurationInSecs) * time.Second
	}
	i.s.calls.add(fmt.Sprintf("SuspendImportRPC(%t)", req.ShouldSuspendImports))
	return &import_sstpb.SuspendImportRPCResponse{AlreadySuspended: i.s.imports.set(time.Now(), d)}, k.answer()
}

// GetMode implements import_sstpb.ImportSSTServer.
func (i *importService) GetMode(ctx context.Context, _ *import_sstpb.GetModeRequest) (*import_sstpb.GetModeResponse, error) {
	if err := i.s.strikeAt(ctx, "GetMode").before(); err != nil {
		return nil, err
	}
	if i.s.imports.running.Load() {
		return &import_sstpb.GetModeResponse{Mode: import_sstpb.SwitchMode_Import}, nil
	}
	return &import_sstpb.GetModeResponse{Mode: import_sstpb.SwitchMode_Normal}, nil
}

// SwitchMode implements import_sstpb.ImportSSTServer.
func (i *importService) SwitchMode(_ context.Context, req *import_sstpb.SwitchModeRequest) (*import_sstpb.SwitchModeResponse, error) {
	i.s.imports.running.Store(req.Mode == import_sstpb.SwitchMode_Import)
	return &import_sstpb.SwitchModeResponse{}, nil
}

// Ingest implements import_sstpb.ImportSSTServer.
func (i *importService) Ingest(ctx context.Context, req *import_sstpb.IngestRequest) (*import_sstpb.IngestResponse, error) {
	return i.ingest(ctx, "Ingest", req.Context)
}

// MultiIngest implements import_sstpb.ImportSSTServer.
func (i *importService) MultiIngest(ctx context.Context, req *import_sstpb.MultiIngestRequest) (*import_sstpb.IngestResponse, error) {
	return i.ingest(ctx, "MultiIngest", req.Context)
}

// ingest looks at the suspension before the region and at the lease after it.
func (i *importService) ingest(ctx context.Context, name string, c *kvrpcpb.Context) (*import_sstpb.IngestResponse, error) {
	k := i.s.strikeAt(ctx, name)
	if err := k.before(); err != nil {
		return nil, err
	}
	if left := i.s.imports.left(time.Now()); left > 0 {
		left = left.Truncate(time.Millisecond)
		return &import_sstpb.IngestResponse{Error: &errorpb.Error{
			Message:      fmt.Sprintf("imports are suspended for %v", left),
			ServerIsBusy: &errorpb.ServerIsBusy{BackoffMs: uint64(left.Milliseconds())},
		}}, nil
	}
	_, _, e, err := i.s.admit(ctx, c, refuseInFlashback)
	if e == nil && err == nil {
		e = i.s.suspendedAdmin()
	}
	return &import_sstpb.IngestResponse{Error: e}, err
}
