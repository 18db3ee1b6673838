package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// benchCollect runs the steps collect and plan as a restore does, against stores that only report their metas. They
// are another process, so that each side's processor time is known.
func benchCollect(ctx context.Context, o benchOptions, add func(figure)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	servers, err := startMetaServers(ctx, o)
	if err != nil {
		return err
	}
	defer servers.stop()
	keys := newCity(o.regions, o.stores).keyBytes()
	client := tikv.Open(tikv.Config{})
	defer client.Close()
	r := resolve.New(client, nil)
	cfg := resolve.Config{Cluster: cluster.Name{Namespace: "bench", Name: "bench"}, Run: "bench", BackupTS: 1, NoneAhead: true}
	for _, st := range servers.stores {
		cfg.Stores = append(cfg.Stores, st.ID)
	}
	r.Target(cfg, listOfStores{stores: servers.stores})
	var collect, cpu float64
	steps := r.PlanSteps("resolve data", resolve.StepOptions{})
	do := steps[0].Do
	steps[0].Do = func(ctx context.Context, s *phase.Scope) error {
		start, used := time.Now(), cpuTime()
		err := do(ctx, s)
		collect, cpu = time.Since(start).Seconds(), (cpuTime() - used).Seconds()
		return err
	}
	heap := watchHeap()
	engine := phase.New(phase.Config{Run: cfg.Run, Journal: journal.NewStoreJournal(objstoretest.NewMemory(nil), "bench/")})
	if err := engine.Run(ctx, steps); err != nil {
		return err
	}
	peak := heap.end()
	theirs := servers.stop()
	peers := r.Stats().Peers
	if peers != 3*o.regions {
		return fmt.Errorf("%d of %d metas came", peers, 3*o.regions)
	}
	how := fmt.Sprintf("%d metas over gRPC from %d stores, on the processors that the stores use too", peers, o.stores)
	add(figure{Name: "collect", Value: float64(peers) / collect, Unit: "metas/s", AtLeast: 400_000, How: how})
	add(figure{Name: "collect, processor time of the tool", Value: 1e6 * cpu / float64(peers), Unit: "us a meta"})
	add(figure{Name: "collect, processor time of the stores", Value: 1e6 * theirs.Seconds() / float64(peers), Unit: "us a meta"})
	add(figure{
		Name: "collect and plan, peak memory beyond the keys", Value: (peak - keys) / float64(peers), Unit: "bytes a peer", AtMost: 400,
		How: "heap of the tool with garbage, sampled each ms",
	})
	return nil
}

// listOfStores is as much of PD as collecting needs; the rest is never called.
type listOfStores struct {
	resolve.PD
	stores []pd.Store
}

// Stores implements pd.Members.
func (l listOfStores) Stores(context.Context) ([]pd.Store, error) { return l.stores, nil }

// metaServers is the process of the stores.
type metaServers struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stores []pd.Store
	once   sync.Once
	used   time.Duration
}

// startMetaServers starts this program again as stores and reads their addresses.
func startMetaServers(ctx context.Context, o benchOptions) (*metaServers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "bench-stores", //nolint:gosec // itself
		"--regions="+strconv.Itoa(o.regions), "--stores="+strconv.Itoa(o.stores))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &metaServers{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("the stores did not start: %w", err)
	}
	for i, address := range strings.Fields(line) {
		s.stores = append(s.stores, pd.Store{ID: cluster.StoreID(i + 1), Address: address, State: pd.StoreUp, StartedAt: time.Unix(1, 0)})
	}
	return s, nil
}

// stop ends the stores and returns their processor time.
func (s *metaServers) stop() time.Duration {
	s.once.Do(func() {
		_ = s.stdin.Close()                                                          // which ends them
		if err := s.cmd.Wait(); err == nil || errors.As(err, new(*exec.ExitError)) { // it has ended, one way or another
			s.used = s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
		}
	})
	return s.used
}

// benchStoresCommand is the other process of bench-resolve: it prints one address a store on one line and serves
// until its standard input ends.
func benchStoresCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use: "bench-stores", Short: "Serve the region metas of bench-resolve", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			debug.SetGCPercent(400) // the stores are to cost little
			city := newCity(o.regions, o.stores)
			var addresses []string
			for s := range o.stores {
				listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", "127.0.0.1:0")
				if err != nil {
					return err
				}
				server := grpc.NewServer(grpc.ForceServerCodecV2(encodedCodec{}), grpc.UnknownServiceHandler(serveMetas(city, s)))
				go func() { _ = server.Serve(listener) }() // until Stop
				defer server.Stop()
				addresses = append(addresses, listener.Addr().String())
			}
			fmt.Fprintln(cmd.OutOrStdout(), strings.Join(addresses, " "))
			_, err := io.Copy(io.Discard, os.Stdin)
			return err
		},
	}
	cmd.Flags().IntVar(&o.regions, "regions", 1_000_000, "regions of three peers each")
	cmd.Flags().IntVar(&o.stores, "stores", 20, "stores")
	return cmd
}

// serveMetas answers ReadRegionMeta as store number s.
func serveMetas(city *cityOfRegions, s int) grpc.StreamHandler {
	return func(_ any, stream grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(stream); method != "/recover_data.RecoverData/ReadRegionMeta" {
			return status.Error(codes.Unimplemented, method)
		}
		if err := stream.RecvMsg(nil); err != nil {
			return err
		}
		var block []byte
		var pb recoverdata.RegionMeta
		return city.each(s, func(m *tikv.RegionMeta) error {
			message(m, &pb)
			n := pb.Size()
			if len(block) < n { // gRPC keeps the bytes until they are sent
				block = make([]byte, 64<<10)
			}
			if _, err := pb.MarshalToSizedBuffer(block[:n]); err != nil {
				return err
			}
			encoded := block[:n:n]
			block = block[n:]
			return stream.SendMsg(encoded)
		})
	}
}

// encodedCodec takes messages that are encoded already and reads nothing of what it gets.
type encodedCodec struct{}

// Marshal implements encoding.CodecV2.
func (encodedCodec) Marshal(v any) (mem.BufferSlice, error) {
	data, ok := v.([]byte)
	if !ok {
		return nil, errors.New("the message is not encoded")
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (encodedCodec) Unmarshal(mem.BufferSlice, any) error { return nil }

// Name implements encoding.CodecV2.
func (encodedCodec) Name() string { return "" }
