package tikvtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

const (
	earlyApplyKey   = "max-apply-unpersisted-log-limit"
	earlyApplyGauge = "tikv_raft_enable_unpersisted_apply_regions"
	contentType     = "Content-Type"
)

// listenStatus opens the status port, at an address of its own beside the gRPC service's.
func (s *Store) listenStatus(ctx context.Context, host string) error {
	if s.opts.NoStatus {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return err
	}
	s.statusAddr = listener.Addr().String()
	if s.cfg.TLS != nil {
		cfg := s.cfg.TLS.Clone()
		cfg.NextProtos = nil
		listener = tls.NewListener(listener, cfg)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /config", s.statusCall("Status.GetConfig", s.getConfig))
	mux.HandleFunc("POST /config", s.statusCall("Status.PostConfig", s.postConfig))
	mux.HandleFunc("GET /metrics", s.statusCall("Status.GetMetrics", s.getMetrics))
	s.status = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	s.goRun(func() { _ = s.status.Serve(listener) })
	return nil
}

// StatusAddr is the address of the status port, host:port; "" of a store that serves none.
func (s *Store) StatusAddr() string { return s.statusAddr }

// CloseStatusPort makes the status port refuse connections, though PD still knows it.
func (s *Store) CloseStatusPort() { s.closeStatus() }

func (s *Store) closeStatus() {
	if s.status != nil {
		_ = s.status.Close()
	}
}

// statusCall asks the fault plan. A Before rule's Code is an HTTP status (default 503); an After rule with a Code answers
// that status after the call was carried out, and one without loses the answer.
func (s *Store) statusCall(point string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f := s.faults.At("tikv." + strconv.FormatUint(s.id, 10) + "." + point)
		if f == nil {
			serve(w, r)
			return
		}
		// A caller that goes away is noticed only once its request is read.
		body, err := io.ReadAll(r.Body)
		if err != nil || f.Wait(r.Context()) != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		code, err := strconv.Atoi(f.Code)
		switch f.Position {
		case fault.Before:
			if err != nil {
				code = http.StatusServiceUnavailable
			}
			http.Error(w, "injected fault", code)
		case fault.After:
			serve(&unheard{header: http.Header{}}, r)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			http.Error(w, "config changed, but failed to persist change due to err: injected fault", code)
		case fault.Stall, fault.Slow: // was waited for
			serve(w, r)
		}
	}
}

// unheard is the answer of a call that is not sent.
type unheard struct{ header http.Header }

// Header implements http.ResponseWriter.
func (u *unheard) Header() http.Header { return u.header }

// Write implements http.ResponseWriter.
func (*unheard) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (*unheard) WriteHeader(int) {}

// getConfig answers a part of the configuration. TiKV does not ask who reads it.
func (s *Store) getConfig(w http.ResponseWriter, _ *http.Request) {
	section := map[string]any{"raft-base-tick-interval": s.opts.TickInterval.String()}
	if limit, known := s.EarlyApplyLimit(); known {
		section[earlyApplyKey] = limit
	}
	w.Header().Set(contentType, "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"raftstore": section, "storage": map[string]any{"engine": "raft-kv"}})
}

// postConfig changes the running store, and its file unless persist=false. It alone asks for the client's common name
// (tikv/tikv, src/server/status_server: should_check_cert).
func (s *Store) postConfig(w http.ResponseWriter, r *http.Request) {
	if !s.mayChange(r) {
		http.Error(w, "certificate role error", http.StatusForbidden)
		return
	}
	var change map[string]any
	if err := json.NewDecoder(r.Body).Decode(&change); err != nil {
		http.Error(w, fmt.Sprintf("failed to decode, error: %v", err), http.StatusInternalServerError)
		return
	}
	limit, err := limitOf(change)
	if _, known := s.EarlyApplyLimit(); !known && err == nil {
		err = errors.New("Invalid(\"raftstore." + earlyApplyKey + "\")")
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("failed to update, error: %v", err), http.StatusInternalServerError)
		return
	}
	s.early.limit.Store(limit)
	if r.URL.Query().Get("persist") != "false" {
		s.early.persisted.Store(true)
	}
}

// limitOf reads the one change that is played. TiKV takes numbers and their text.
func limitOf(change map[string]any) (uint64, error) {
	value, ok := change["raftstore."+earlyApplyKey]
	if !ok || len(change) != 1 {
		return 0, fmt.Errorf("the stand-in changes raftstore.%s only, and not %v", earlyApplyKey, change)
	}
	return strconv.ParseUint(fmt.Sprint(value), 10, 64)
}

// mayChange checks security.cert-allowed-cn, which means nothing without TLS.
func (s *Store) mayChange(r *http.Request) bool {
	if s.opts.AllowedCN == "" || s.cfg.TLS == nil {
		return true
	}
	return r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && r.TLS.PeerCertificates[0].Subject.CommonName == s.opts.AllowedCN
}

// getMetrics has the gauge only once it was touched, as TiKV registers it then. Its help text is TiKV's.
func (s *Store) getMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(contentType, "text/plain; version=0.0.4")
	_, _ = fmt.Fprintf(w, "# TYPE tikv_server_info gauge\ntikv_server_info{version=\"%s\"} 1\n", s.version())
	if n, touched := s.earlyAppliers(); touched {
		_, _ = fmt.Fprintf(w, "# HELP %[1]s The number of regions that disable apply unpersisted raft log.\n# TYPE %[1]s gauge\n%[1]s %[2]d\n",
			earlyApplyGauge, n)
	}
}
