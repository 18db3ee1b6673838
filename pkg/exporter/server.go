package exporter

import (
	"context"
	_ "embed"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Bounds for requests: a page reads at most a few objects.
const (
	headerTimeout = 10 * time.Second
	pageTimeout   = time.Minute
	idleTimeout   = 2 * time.Minute
	shutdownTime  = 5 * time.Second
	maxHeader     = 16 << 10
)

//go:embed page.css
var pageStyle []byte

//go:embed live.js
var liveScript []byte

// Handler serves the metrics, two health checks and the page. Every request but GET and HEAD is refused with 405.
func (x *Exporter) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(x, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics",
		x.afterFirst(
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 10, Timeout: pageTimeout})))
	mux.HandleFunc("GET /-/healthy",
		func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "healthy") })
	mux.Handle("GET /-/ready", http.HandlerFunc(x.ready))
	if !x.options.NoPage {
		mux.Handle("GET /{$}", x.page(x.listPage))
		mux.Handle("GET /backups/{id}", x.page(x.backupPage))
		mux.Handle("GET /runs/{run}", x.page(x.runPage))
		mux.Handle("GET /live/{run}", x.page(x.livePart))
		mux.HandleFunc("GET /page.css", asset("text/css; charset=utf-8", pageStyle))
		mux.HandleFunc("GET /live.js", asset("text/javascript; charset=utf-8", liveScript))
	}
	return guarded(mux, x.options.Public)
}

// afterFirst makes a scrape wait for the first read of the storage, as long as the scraper does.
func (x *Exporter) afterFirst(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := x.latest(r.Context()); err != nil {
			return // the client has gone
		}
		next.ServeHTTP(w, r)
	})
}

func (x *Exporter) ready(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-x.first:
		plain(w, http.StatusOK, "ready")
	default:
		plain(w, http.StatusServiceUnavailable, "the storage is still being read for the first time")
	}
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the client may have gone
}

func asset(kind string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(body) // the client may have gone
	}
}

// Serve serves on the listener until ctx ends, then gives pending requests some seconds to finish.
func (x *Exporter) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: x.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, IdleTimeout: idleTimeout,
		WriteTimeout: 2 * pageTimeout, MaxHeaderBytes: maxHeader, ErrorLog: zap.NewStdLog(x.options.Log),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		stopped <- server.Shutdown(short)
	})
	err := server.Serve(listener)
	if !stop() {
		_ = <-stopped // requests still unanswered are aborted
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return failure.Wrap(err, failure.Unknown, "serve", listener.Addr().String())
}
