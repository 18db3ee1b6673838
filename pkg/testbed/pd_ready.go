package testbed

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// pdReady asks PD over HTTP whether all stores are up and the coordinator runs, as a cluster is that has
// been running for a while.
func (c *Cluster) pdReady(ctx context.Context) bool {
	var stores struct {
		Stores []struct {
			Store struct {
				State string `json:"state_name"`
			} `json:"store"`
		} `json:"stores"`
	}
	if c.getPD(ctx, "stores", &stores) != nil || len(stores.Stores) == 0 {
		return false
	}
	for _, s := range stores.Stores {
		if s.Store.State != "Up" {
			return false
		}
	}
	var schedulers []string
	var resolved struct {
		TS uint64 `json:"min_resolved_ts"`
	}
	return c.getPD(ctx, "schedulers", &schedulers) == nil && len(schedulers) > 0 &&
		c.getPD(ctx, "min-resolved-ts", &resolved) == nil && resolved.TS > 0
}

// AwaitResolved waits until the cluster's resolved ts has passed ts, as a backup of everything up to ts needs.
func (c *Cluster) AwaitResolved(ctx context.Context, ts cluster.TS) error {
	err := wait.Until(ctx, wait.Every(poll), func() (bool, error) {
		var resolved struct {
			TS uint64 `json:"min_resolved_ts"`
		}
		err := c.getPD(ctx, "min-resolved-ts", &resolved)
		return err == nil && cluster.TS(resolved.TS) > ts, err
	})
	return failure.Annotate(err, "wait for resolved ts", ts.String())
}

// httpClient speaks to PD.
func httpClient(secure *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: secure}}
}

// pdURL is where PD listens, whatever name it is known by.
func (c *Cluster) pdURL() string {
	scheme, _, _ := strings.Cut(c.PD.URLs()[0], "://")
	return scheme + "://" + c.PD.Addrs()[0]
}

func (c *Cluster) getPD(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.pdURL()+"/pd/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
