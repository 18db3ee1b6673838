package pdtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/meta_storagepb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

// member is one PD process: a port on which gRPC and HTTP are distinguished by their first bytes.
type member struct {
	server *Server
	index  int
	addr   string // host:port; the port is fixed by the first start
	alive  bool   // under server.mu

	split *splitter // nil while down; under server.life
	rpc   *grpc.Server
	web   *http.Server
	wg    sync.WaitGroup
}

func (m *member) name() string {
	if m.index == 0 && m.server.cfg.Name != "" {
		return m.server.cfg.Name
	}
	return fmt.Sprintf("pd-%d", m.index)
}

func (m *member) id() uint64 { return m.server.disk.clusterID/1000*1000 + uint64(m.index) + 1 }

func (m *member) url() string {
	addr := m.addr
	if host := m.server.cfg.Advertise; host != "" {
		_, port, _ := net.SplitHostPort(addr) // it was listened on
		addr = net.JoinHostPort(host, port)
	}
	if m.server.cfg.TLS != nil {
		return "https://" + addr
	}
	return "http://" + addr
}

func (m *member) message() *pdpb.Member {
	return &pdpb.Member{
		Name: m.name(), MemberId: m.id(), ClientUrls: []string{m.url()},
		PeerUrls: []string{m.url()}, BinaryVersion: "v" + m.server.cfg.Version,
	}
}

func (m *member) up() bool { return m.split != nil }

func (m *member) start() error {
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", m.addr)
	if err != nil {
		return fmt.Errorf("listen of %s: %w", m.name(), err)
	}
	m.server.mu.Lock()
	m.addr = ln.Addr().String()
	m.server.mu.Unlock()
	if cfg := m.server.cfg.TLS; cfg != nil {
		cfg = cfg.Clone()
		cfg.NextProtos = []string{"h2", "http/1.1"}
		ln = tls.NewListener(ln, cfg)
	}
	m.split = newSplitter(ln)
	m.rpc = grpc.NewServer(
		grpc.ChainUnaryInterceptor(m.interceptUnary), grpc.ChainStreamInterceptor(m.interceptStream),
		grpc.MaxRecvMsgSize(64<<20), grpc.MaxSendMsgSize(64<<20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}))
	pdpb.RegisterPDServer(m.rpc, &rpcServer{Server: m.server, member: m})
	etcdserverpb.RegisterKVServer(m.rpc, &etcdServer{server: m.server})
	etcdserverpb.RegisterClusterServer(m.rpc, &etcdCluster{server: m.server})
	meta_storagepb.RegisterMetaStorageServer(m.rpc, &metaServer{server: m.server})
	healthy := health.NewServer()
	grpc_health_v1.RegisterHealthServer(m.rpc, healthy)
	m.web = &http.Server{Handler: m.routes(), ReadHeaderTimeout: 10 * time.Second}
	m.wg.Add(3)
	go func() { defer m.wg.Done(); m.split.run() }()
	go func() { defer m.wg.Done(); _ = m.rpc.Serve(m.split.rpc) }()
	go func() {
		defer m.wg.Done()
		if err := m.web.Serve(m.split.web); err != nil && !errors.Is(err, http.ErrServerClosed) {
			m.split.close()
		}
	}()
	return nil
}

// stop breaks all connections and waits for the loops, not for the handlers.
func (m *member) stop() {
	if m.split == nil {
		return
	}
	m.split.close()
	m.rpc.Stop()
	_ = m.web.Close()
	m.wg.Wait()
	m.split = nil
}
