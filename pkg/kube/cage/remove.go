package cage

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/wait"
)

// List lists the cages of all runs and storages.
func (c *Cages) List(ctx context.Context) ([]Cage, error) {
	list, err := c.core.Namespaces().List(ctx, metav1.ListOptions{LabelSelector: Label + "=true"})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list cages", "")
	}
	out := make([]Cage, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, read(&list.Items[i]))
	}
	return out, nil
}

// goneInterval is the pause between two questions whether a namespace is gone.
const goneInterval = 2 * time.Second

// Remove deletes a cage and all that is in it, and returns when it is gone. A namespace of that name with another UID
// is another one, which stays; one that is marked for another run by now is a Conflict. A cage that is gone is no
// error. Persistent volumes may outlive it: delete their claims first. It waits until ctx ends: give it a deadline.
func (c *Cages) Remove(ctx context.Context, cage Cage) error {
	const op = "remove cage"
	if cage.UID == "" || cage.Run == "" {
		return failure.New(failure.Usage, op, cage.Namespace, "its UID and its run have to be known")
	}
	uid := types.UID(cage.UID)
	err := wait.Until(ctx, wait.Every(goneInterval), func() (bool, error) {
		ns, err := c.core.Namespaces().Get(ctx, cage.Namespace, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			err = kubeerr.Wrap(err, op, cage.Namespace)
			return !failure.Transient(err), err
		}
		found := read(ns)
		if found.UID != cage.UID {
			return true, nil
		}
		if found.Run != cage.Run || found.Storage != cage.Storage || ns.Labels[Label] == "" {
			return true, failure.New(failure.Conflict, op, cage.Namespace,
				"it is of run %q of storage %q, not of run %s", found.Run, found.Storage, cage.Run).
				WithHint("kubectl get namespace %s -o yaml: whose is it?", cage.Namespace)
		}
		if found.Deleting {
			return false, failure.New(failure.Limited, op, cage.Namespace, "it is still being deleted").
				WithHint("kubectl get namespace %s -o yaml shows what is left in it", cage.Namespace)
		}
		err = kubeerr.Wrap(c.core.Namespaces().Delete(ctx, cage.Namespace, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid},
		}), op, cage.Namespace)
		// Gone, or another one by now: the next question shows it.
		asked := err == nil || failure.Is(err, failure.NotFound) || failure.Is(err, failure.Conflict)
		return !asked && !failure.Transient(err), err
	})
	return failure.Annotate(wait.Reason(err), op, cage.Namespace)
}
