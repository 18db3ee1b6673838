package cage

import (
	"context"
	"errors"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Prober opens connections between pods.
type Prober interface {
	// Listen starts a pod that accepts connections, and returns its address once it does.
	Listen(ctx context.Context, namespace, name string) (address string, err error)
	// Connect starts a pod that tries once to connect to an address, and returns whether it could. An error means that
	// this is unknown.
	Connect(ctx context.Context, namespace, name, address string) (bool, error)
	// Remove removes the pods that the prober started in a namespace.
	Remove(ctx context.Context, namespace string) error
}

const (
	// enforcedWithin is how long a network plugin may take until it applies a policy to a new pod: some let a pod do
	// anything until then.
	enforcedWithin = 30 * time.Second
	// removeWithin bounds the removal of the probes outside the cage.
	removeWithin = time.Minute
)

// connection is one that is tried.
type connection struct {
	name     string
	from, to string // namespaces
	allowed  bool
	without  string // what it means if it is not as it has to be
}

const (
	hintPolicy = "install a network plugin that enforces NetworkPolicy, or turn that on (of the Amazon VPC CNI: " +
		"enableNetworkPolicy)"
	hintProbe = "check the pods of the probe: kubectl -n %s describe pods"
)

// Prove opens connections from and to the cage that have to fail, after others that have to succeed: without those a
// connection that fails proves nothing. Outside is a namespace that is not in Spec.From and has no policies of its own.
// It returns Unready if the network does not keep to the policies. The probes are removed in any case. It takes at most
// 3 min for each pod of the probe, and 30 s more for each connection.
func Prove(ctx context.Context, probes Prober, cage Cage, outside string) (err error) {
	const op = "prove cage"
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
		defer cancel()
		for _, namespace := range []string{cage.Namespace, outside} {
			left := probes.Remove(bounded, namespace)
			err = errors.Join(err, failure.Annotate(left, op, "probes in "+namespace))
		}
	}()
	address := map[string]string{}
	for _, namespace := range []string{cage.Namespace, outside} {
		if address[namespace], err = probes.Listen(ctx, namespace, "listen"); err != nil {
			return failure.Annotate(err, op, cage.Namespace)
		}
	}
	for _, c := range []connection{
		{"inside", cage.Namespace, cage.Namespace, true, "pods in it do not reach each other"},
		{"outside", outside, outside, true, "pods in " + outside + " do not reach each other"},
		{"into", outside, cage.Namespace, false, "a pod in " + outside + " reaches one in it"},
		{"out-of", cage.Namespace, outside, false, "a pod in it reaches one in " + outside},
	} {
		if err := c.try(ctx, probes, address[c.to]); err != nil {
			return failure.Annotate(err, op, cage.Namespace)
		}
	}
	return nil
}

// try tries until the connection is as it has to be. A network plugin has its time from the first answer on: before
// that, the image of the probe may have to be pulled.
func (c connection) try(ctx context.Context, probes Prober, address string) error {
	ctx, cancel := context.WithTimeout(ctx, podWithin+enforcedWithin)
	defer cancel()
	var end time.Time
	err := wait.Until(ctx, wait.Every(time.Second), func() (bool, error) {
		connected, err := probes.Connect(ctx, c.from, c.name, address)
		switch {
		case err != nil:
			return ctx.Err() == nil && !failure.Transient(err), err
		case connected == c.allowed:
			return true, nil
		case end.IsZero():
			end = time.Now().Add(enforcedWithin)
		}
		e := failure.New(failure.Unready, "connect", "", "%s", c.without)
		if c.allowed {
			return time.Now().After(end), e.WithHint(hintProbe, c.from)
		}
		return time.Now().After(end), e.WithHint(hintPolicy)
	})
	return wait.Reason(err)
}
