package suite

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Proxy is between a store and its server, and disturbs what passes: answers are lost after the server has
// carried the request out, and bodies are damaged on their way.
type Proxy struct {
	target string
	server *httptest.Server
	client *http.Client

	mu           sync.Mutex
	disturbances []*disturbance
}

// disturbance is what is done to the next calls of a method; a negative count is all of them.
type disturbance struct {
	method string
	what   mischief
	count  int
}

type mischief int

const (
	nothing mischief = iota
	loseAnswer
	damageRequest
	damageAnswer
)

func newProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	p := &Proxy{target: target, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	p.server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
		p.client.CloseIdleConnections()
	})
	return p
}

// URL is where the store has to go.
func (p *Proxy) URL() string { return p.server.URL }

// Lose cuts the connection after the server's answer to the next so many calls; -1 is to all.
func (p *Proxy) Lose(method string, count int) { p.add(method, loseAnswer, count) }

// DamageRequests flips a bit of the next so many requests' bodies.
func (p *Proxy) DamageRequests(method string, count int) { p.add(method, damageRequest, count) }

// DamageAnswers flips a bit of the next so many answers' bodies.
func (p *Proxy) DamageAnswers(method string, count int) { p.add(method, damageAnswer, count) }

func (p *Proxy) add(method string, what mischief, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disturbances = append(p.disturbances, &disturbance{method, what, count})
}

func (p *Proxy) next(method string) mischief {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.disturbances {
		if s.method == method && s.count != 0 {
			s.count--
			return s.what
		}
	}
	return nothing
}

// ServeHTTP passes one call on. The host that was signed stays the host.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the store went away
	}
	what := p.next(r.Method)
	if what == damageRequest && len(body) > 0 {
		body[len(body)/2] ^= 1
	}
	// The request reaches the server whatever its sender does meanwhile.
	out, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, p.target+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Header, out.Host = r.Header.Clone(), r.Host
	out.Header.Del("Expect") // was answered here
	answer, err := p.client.Do(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }() // it was read to its end
	content, err := io.ReadAll(answer.Body)
	if err != nil || what == loseAnswer {
		hangUp(w)
		return
	}
	if what == damageAnswer && len(content) > 0 {
		content[len(content)/2] ^= 1
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(content) // the store may have gone
}

// hangUp breaks the connection without an answer.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = conn.Close() // the store is to see a broken connection
}
