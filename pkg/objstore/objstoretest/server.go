package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Config sets up a Server.
type Config struct {
	// Faults is asked at every call; nil has none. Codes are S3's ("SlowDown", "AccessDenied", …; see
	// statusOf). The code "CorruptBody" on s3.GetObject flips a bit of the answered body instead.
	Faults *fault.Plan
	// Points names more points at which Faults is asked, after the call's own, for the object that is written; nil
	// names none. The first that strikes decides.
	Points func(key string, body []byte) []string
	// Page bounds the keys of one answer to a listing; 0 is S3's 1000.
	Page int
}

// Server is an S3 in memory. It knows PutObject, GetObject with ranges, HeadObject, DeleteObject,
// DeleteObjects, ListObjects of both versions, CreateBucket, HeadBucket, DeleteBucket, ListBuckets,
// GetBucketLocation, the settings of a bucket that tisnap reads (settings.go), versions and Object Lock, in path style. Reads follow writes. Requests must be signed, but any signature will do.
// It is safe for concurrent use.
type Server struct {
	config   Config
	listener net.Listener
	http     *http.Server
	served   chan struct{}
	closing  context.Context // ends with Close
	end      context.CancelFunc
	calls    sync.WaitGroup

	mu       sync.Mutex
	buckets  map[string]map[string]stored   // what reads see
	behind   map[string]map[string][]stored // older versions and delete markers, the oldest first
	versions int                            // that were made
	settings map[string][]byte              // by bucket and name, as they were put
	skew     time.Duration
	// unconditional writes objects whatever their conditions
	unconditional bool
	mutating      []string
}

// New makes a server that does not listen yet. It can be used as a handler of another server instead.
func New(config Config) *Server {
	if config.Page <= 0 {
		config.Page = 1000
	}
	s := &Server{
		config: config, buckets: map[string]map[string]stored{}, settings: map[string][]byte{},
		behind: map[string]map[string][]stored{},
	}
	s.closing, s.end = context.WithCancel(context.Background())
	return s
}

// Start listens on a free loopback port.
func (s *Server) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.listener, s.http, s.served = listener, &http.Server{Handler: s}, make(chan struct{}) //nolint:gosec // loopback
	go func() {
		defer close(s.served)
		_ = s.http.Serve(listener) // always an error; Close is the only reason for it
	}()
	return nil
}

// Close breaks all connections, stalled calls included, and waits for the server to end. The objects stay;
// the server cannot be started again.
func (s *Server) Close() error {
	s.end()
	if s.http == nil {
		return nil
	}
	err := s.http.Close()
	<-s.served
	s.calls.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// URL is the endpoint, "http://127.0.0.1:PORT".
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// CreateBucket makes a bucket; one that exists stays as it is.
func (s *Server) CreateBucket(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets[name] == nil {
		s.buckets[name], s.behind[name] = map[string]stored{}, map[string][]stored{}
	}
}

// DropBucket removes a bucket with all that is in it.
func (s *Server) DropBucket(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buckets, name)
	delete(s.behind, name)
}

// MutatingCalls lists the calls that were asked to change something and not refused by a fault, as
// "PutObject bucket/key". A write that its condition refused is among them.
func (s *Server) MutatingCalls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mutating)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	defer s.calls.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	// With the whole body read, net/http notices a client that gives up while its call is stalled.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		hangUp(w)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c := newCall(r)
	c.raw = body
	s.answer(ctx, w, c)
}

// strike asks the plan at the call's own point, and at those of the object that it writes.
func (s *Server) strike(c *call) *fault.Strike {
	strike := s.config.Faults.At("s3." + c.op)
	if s.config.Points == nil || c.op != "PutObject" {
		return strike
	}
	written := c.r.Clone(c.r.Context())
	written.Body = io.NopCloser(bytes.NewReader(c.raw))
	body, _, _, failed := payload(written)
	if failed != nil {
		return strike
	}
	for _, point := range s.config.Points(c.key, body) {
		if at := s.config.Faults.At(point); strike == nil {
			strike = at
		}
	}
	return strike
}

func (s *Server) answer(ctx context.Context, w http.ResponseWriter, c *call) {
	w.Header().Set("X-Amz-Request-Id", "TISNAP")
	w.Header().Set("Date", s.now().Format(http.TimeFormat))
	strike := s.strike(c)
	if err := strike.Wait(ctx); err != nil {
		hangUp(w)
		return
	}
	if strike != nil && strike.Position == fault.Before && strike.Code != corruptBody {
		(&s3Error{code: strike.Code, message: "injected fault"}).write(w, c)
		return
	}
	c.corrupt = strike != nil && strike.Code == corruptBody
	write, err := s.do(c)
	if strike != nil && strike.Position == fault.After && !c.corrupt {
		hangUp(w)
		return
	}
	if err != nil {
		err.write(w, c)
		return
	}
	write(w)
}

// do carries the call out; what it returns writes the answer.
func (s *Server) do(c *call) (func(http.ResponseWriter), *s3Error) {
	if c.r.Header.Get("Authorization") == "" && c.r.URL.Query().Get("X-Amz-Signature") == "" {
		return nil, &s3Error{code: "AccessDenied", message: "Access Denied"}
	}
	handler, ok := map[string]func(*call) (func(http.ResponseWriter), *s3Error){
		"ListBuckets": s.listBuckets, "CreateBucket": s.createBucket, "HeadBucket": s.headBucket,
		"DeleteBucket": s.deleteBucket, "GetBucketLocation": s.headBucket,
		"ListObjectsV2": s.listObjects, "ListObjects": s.listObjects, "DeleteObjects": s.deleteObjects, "ListObjectVersions": s.listVersions,
		"GetBucketVersioning": s.getSetting, "GetBucketLifecycleConfiguration": s.getSetting, "GetObjectLockConfiguration": s.getSetting,
		"PutBucketVersioning": s.putSetting, "PutBucketLifecycleConfiguration": s.putSetting, "PutObjectLockConfiguration": s.putSetting,
		"GetObjectRetention": s.getRetention, "PutObjectRetention": s.putRetention,
		"PutObject": s.putObject, "GetObject": s.getObject, "HeadObject": s.getObject, "DeleteObject": s.deleteObject,
	}[c.op]
	if !ok {
		return nil, &s3Error{code: "NotImplemented", message: c.r.Method + " with " + c.r.URL.RawQuery}
	}
	return handler(c)
}

// mutates notes the call. The caller holds s.mu.
func (s *Server) mutates(c *call) {
	s.mutating = append(s.mutating, c.op+" "+strings.TrimSuffix(c.bucket+"/"+c.key, "/"))
}

// hangUp breaks the connection without an answer.
func hangUp(w http.ResponseWriter) {
	if hijacker, ok := w.(http.Hijacker); ok {
		if conn, _, err := hijacker.Hijack(); err == nil {
			_ = conn.Close() // the client sees it either way
		}
	}
}
