package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tikv/client-go/v2/config"
	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
	pd "github.com/tikv/pd/client"
	"github.com/tikv/pd/client/clients/gc"
	"github.com/tikv/pd/client/opt"
	"github.com/tikv/pd/client/pkg/caller"
	"google.golang.org/grpc/codes"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// pdTimeout is how long one request to PD may take.
const pdTimeout = 3 * time.Second

// Cluster is a connection to a TiDB cluster through client-go. It is safe for concurrent use.
type Cluster struct {
	store *tikv.KVStore
	pd    pd.Client
}

// connectTries is how often a connection is tried before PD counts as away: the client gives up after one slow
// answer, and cancels its first timestamps when PD's leader is looked up at the same time.
const connectTries = 5

// Connect connects to the cluster of these PD addresses. It fails if PD does not answer, after connectTries.
func Connect(ctx context.Context, addresses []string) (c *Cluster, err error) {
	return ConnectTLS(ctx, addresses, cluster.TLSFiles{})
}

// ConnectTLS is Connect to a cluster with TLS; without files there is none.
func ConnectTLS(ctx context.Context, addresses []string, files cluster.TLSFiles) (c *Cluster, err error) {
	for range connectTries {
		c, err = connect(ctx, addresses, files)
		if err == nil || wait.For(ctx, retryPause) != nil {
			break
		}
	}
	return c, failure.Wrap(err, failure.Unknown, "connect workload", fmt.Sprint(addresses))
}

func connect(ctx context.Context, addresses []string, files cluster.TLSFiles) (*Cluster, error) {
	// The client outlives ctx: ctx is only for connecting.
	client, err := pd.NewClientWithContext(context.WithoutCancel(ctx), caller.Component("workload"), addresses,
		pd.SecurityOption{CAPath: files.CA, CertPath: files.Cert, KeyPath: files.Key},
		// PD 8.5 and older do not know the router client's stream, on which it would hang for ever.
		opt.WithEnableRouterClient(false), opt.WithCustomTimeoutOption(pdTimeout), opt.WithMaxErrorRetry(1),
		// It would make its metrics again, while other clients write to them.
		opt.WithInitMetricsOption(false))
	if err != nil {
		return nil, err
	}
	codec := tikv.NewCodecPDClient(tikv.ModeTxn, unguarded{client})
	rpc := tikv.NewRPCClient(tikv.WithCodec(codec.GetCodec()), tikv.WithSecurity(config.Security{
		ClusterSSLCA: files.CA, ClusterSSLCert: files.Cert, ClusterSSLKey: files.Key,
	}))
	store, err := tikv.NewKVStore("tisnap-workload", codec, tikv.NewMockSafePointKV(), rpc)
	if err != nil {
		_ = rpc.Close()
		client.Close()
		return nil, err
	}
	return &Cluster{store: store, pd: codec}, nil
}

// Close ends all connections and waits for client-go's goroutines, except for those that look for a store that was
// down: they end on their own within 5 s.
func (c *Cluster) Close() error { return c.store.Close() }

// Now is a fresh timestamp of PD. One that the client itself cancelled is asked for again.
func (c *Cluster) Now(ctx context.Context) (cluster.TS, error) {
	var physical, logical int64
	var err error
	for range connectTries {
		physical, logical, err = c.pd.GetTS(ctx)
		if err == nil || !strings.Contains(err.Error(), codes.Canceled.String()) || wait.For(ctx, retryPause) != nil {
			break
		}
	}
	if err != nil {
		return 0, failure.Wrap(err, failure.Unknown, "get timestamp", "")
	}
	return cluster.TS(oracle.ComposeTS(physical, logical)), nil
}

// begin starts a transaction at a fresh timestamp. What a pipelined one flushes, it flushes at full speed.
func (c *Cluster) begin(ctx context.Context, pipelined bool) (*transaction.KVTxn, cluster.TS, error) {
	start, err := c.Now(ctx)
	if err != nil {
		return nil, 0, err
	}
	options := []tikv.TxnOption{tikv.WithStartTS(uint64(start))}
	if pipelined {
		options = append(options, tikv.WithPipelinedTxn(4, 4, 0))
	}
	txn, err := c.store.Begin(options...)
	return txn, start, err
}

// fate finds out what became of a transaction, by its primary: client-go takes the least key. One that is
// neither committed nor alive is rolled back permanently.
func (c *Cluster) fate(ctx context.Context, p *pending) (commit cluster.TS, decided bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	primary := p.changes[0].key
	for _, change := range p.changes {
		primary = min(primary, change.key)
	}
	for range 2 {
		status, err := c.store.GetLockResolver().GetTxnStatus(uint64(p.writer), 0, []byte(primary))
		switch {
		case err != nil:
			return 0, false, failure.Wrap(err, failure.Unknown, "check transaction", p.writer.String())
		case status.IsCommitted():
			return cluster.TS(status.CommitTS()), true, nil
		case status.IsRolledBack():
			return 0, true, nil
		}
		// An asynchronous commit is decided by its secondaries, and by the first reader once its lock has expired.
		if err := c.read(ctx, primary); err != nil {
			return 0, false, err
		}
	}
	return 0, false, nil
}

// read reads a key as it is now, and decides the transaction that has locked it.
func (c *Cluster) read(ctx context.Context, key string) error {
	txn, _, err := c.begin(ctx, false)
	if err != nil {
		return err
	}
	if _, err := txn.Get(ctx, []byte(key)); err != nil && !tikverr.IsErrNotFound(err) {
		return errors.Join(failure.Wrap(err, failure.Unknown, "read", key), txn.Rollback())
	}
	return txn.Rollback()
}

// unguarded is a PD client whose cluster has no GC: client-go would read the safe point from PD's etcd, which it
// cannot do without a second connection, and stop reads when that is lost.
type unguarded struct{ pd.Client }

// WithCallerComponent keeps the wrapper.
func (u unguarded) WithCallerComponent(c caller.Component) pd.Client {
	return unguarded{u.Client.WithCallerComponent(c)}
}

// GetGCStatesClient answers that nothing was ever collected.
func (u unguarded) GetGCStatesClient(uint32) gc.GCStatesClient { return noGC{} }

type noGC struct{ gc.GCStatesClient }

// GetGCState is the state of a cluster where GC never ran.
func (noGC) GetGCState(context.Context) (gc.GCState, error) { return gc.GCState{}, nil }
