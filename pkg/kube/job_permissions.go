package kube

import "context"

// purposeful is a permission and what it is for.
type purposeful struct {
	permission
	use string
}

// JobsPurpose is what Jobs of tisnap are made for.
type JobsPurpose int

// The values of JobsPurpose.
const (
	JobsArchive JobsPurpose = iota // archive create --on-kubernetes
	JobsFill                       // archive restore --to-claims
)

// permissions lists every permission that a command needs which makes such Jobs.
func (p JobsPurpose) permissions() []purposeful {
	all := []purposeful{
		{permission{"create", "batch", "jobs"}, "to make pods"},
		{permission{"get", "batch", "jobs"}, "to follow them"},
		{permission{"delete", "batch", "jobs"}, "to remove them"},
		{permission{"list", "", "pods"}, "to see why one does not run"},
		{permission{"list", "", "events"}, "to see why none is made"},
	}
	if p == JobsArchive {
		return all
	}
	return append(all, []purposeful{
		{permission{"update", "batch", "jobs"}, "to begin a Job once its volumes are seen to be empty"},
		{permission{"list", "batch", "jobs"}, "to find those of the run, for --remove"},
		{permission{"create", "", "persistentvolumeclaims"}, "to make volumes"},
		{permission{"get", "", "persistentvolumeclaims"}, "to follow them"},
		{permission{"update", "", "persistentvolumeclaims"}, "to mark those that are filled"},
		{permission{"list", "", "persistentvolumeclaims"}, "to find those of the run, for --remove"},
		{permission{"delete", "", "persistentvolumeclaims"}, "for --remove"},
		{permission{"get", "", "persistentvolumes"}, "to learn a volume's id"},
		{permission{"update", "", "persistentvolumes"}, "to mark them, and for --remove"},
		{permission{"list", "", "persistentvolumes"}, "to find those of the run, for --remove"},
		{permission{"get", "storage.k8s.io", "storageclasses"}, "to check the class"},
		{permission{"list", "storage.k8s.io", "storageclasses"}, "to find the default class"},
		{permission{"list", "", "nodes"}, "to spread a cluster's stores over zones, for restore --archive-via volumes"},
	}...)
}

// MissingForJobs lists the permissions for Jobs in a namespace that the caller lacks now, each with what it is for.
func (c *Client) MissingForJobs(ctx context.Context, namespace string, of JobsPurpose) ([]string, error) {
	var all []permission
	uses := map[permission]string{}
	for _, p := range of.permissions() {
		all = append(all, p.permission)
		uses[p.permission] = p.use
	}
	missing, err := c.missing(ctx, all, namespace)
	texts := make([]string, len(missing))
	for i, p := range missing {
		texts[i] = p.String() + " (" + uses[p] + ")"
	}
	return texts, err
}
