package exporter

import (
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"strings"

	"github.com/tisnap/tisnap/pkg/report/htmlreport"
)

// guarded refuses requests that could change anything, and sets headers that allow a page only to show itself. A
// loopback listener serves only requests for a loopback host name: otherwise a web site whose name resolves to
// 127.0.0.1 could read the page.
func guarded(next http.Handler, public bool) http.Handler {
	policy := contentPolicy()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		for name, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-store",
			"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
		} {
			header.Set(name, value)
		}
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			header.Set("Allow", "GET, HEAD")
			plain(w, http.StatusMethodNotAllowed, "nothing can be changed here")
		case !public && !loopbackName(r.Host):
			plain(w, http.StatusMisdirectedRequest, "only localhost is served; use --listen to serve others")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// loopbackName reports whether a Host header is localhost or a loopback address.
func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.EqualFold(host, "localhost") || Loopback(host)
}

// Loopback reports whether no other machine can reach an address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// contentPolicy allows the documents' style by its digest, and the exporter's own style and script by their origin.
func contentPolicy() string {
	var page strings.Builder
	_ = htmlreport.Document("", nil).Render(&page) // a builder does not fail
	_, rest, _ := strings.Cut(page.String(), "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	digest := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'self' 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) +
		"'; script-src 'self'; connect-src 'self'; " +
		"img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}
