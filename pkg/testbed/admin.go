package testbed

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// remove deletes an object through the API server, as a person's kubectl would; one that is not there is no error.
func (t *Testbed) remove(ctx context.Context, resource, namespace, name string) error {
	if t.real != nil {
		return t.real.Delete(ctx, resource, namespace, name)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, t.Kube.URL()+kubetest.Path(resource, namespace, name), nil)
	if err != nil {
		return err
	}
	return send(req, http.StatusNotFound)
}

// deleteVolume deletes a volume through EC2's API, as a person's aws would.
func (t *Testbed) deleteVolume(ctx context.Context, v cluster.VolumeID) error {
	form := url.Values{"Action": {"DeleteVolume"}, "Version": {"2016-11-15"}, "VolumeId": {string(v)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.AWS()+"/", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	return send(req)
}

func send(req *http.Request, accepted ...int) error {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode < 300 {
		return nil
	}
	for _, code := range accepted {
		if resp.StatusCode == code {
			return nil
		}
	}
	return fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, body)
}
