package kube

import (
	"net/http"

	"github.com/tisnap/tisnap/pkg/fenced"
)

// askFirst lets the run's lock refuse each mutating request right before it is sent; see package fenced.
type askFirst struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a askFirst) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		if err := fenced.Check(r.Context()); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // a RoundTripper must, also on errors
			}
			return nil, err
		}
	}
	return a.next.RoundTrip(r)
}
