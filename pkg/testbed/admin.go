package testbed

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
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
	return call(ctx, t.EC2, url.Values{"Action": {"DeleteVolume"}, "VolumeId": {string(v)}})
}

// call calls EC2's API, so that it is among its calls.
func call(ctx context.Context, ec2 *ebstest.Server, form url.Values) error {
	form.Set("Version", "2016-11-15")
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	answer := httptest.NewRecorder()
	ec2.ServeHTTP(answer, req)
	if answer.Code >= http.StatusMultipleChoices {
		return fmt.Errorf("%s: %s", form.Get("Action"), answer.Body)
	}
	return nil
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
