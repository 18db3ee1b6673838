package generate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Roles is what tisnap's pods may do in Kubernetes.
type Roles struct {
	Account    Account
	Namespaces []string // of the TiDB clusters
	TLS        []string // names of clusters whose client secrets may be read
	RoleARN    string   // of the account's IAM role, for IRSA alone
}

// Objects returns the ServiceAccount, its roles and their bindings. Those that are not the default account's are named
// after theirs, so that two accounts do not share a binding.
func (r Roles) Objects() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	account, err := read("kustomize/base/serviceaccount.yaml")
	if err != nil {
		return nil, err
	}
	account[0].set(r.Account.Name, "metadata", "name")
	account[0].set(r.Account.Namespace, "metadata", "namespace")
	if r.RoleARN != "" {
		account[0].set(r.RoleARN, "metadata", "annotations", "eks.amazonaws.com/role-arn")
	}
	out := account
	for _, namespace := range r.Namespaces {
		roles, err := r.in(namespace)
		if err != nil {
			return nil, err
		}
		out = append(out, roles...)
	}
	wide, err := read("kustomize/base/clusterrole.yaml")
	if err != nil {
		return nil, err
	}
	r.bind(wide)
	return write(append(out, wide...))
}

func (r Roles) check() error {
	if err := r.Account.check(); err != nil {
		return err
	}
	for _, namespace := range r.Namespaces {
		if err := check("namespace", namespace, label, "the name of a namespace with TiDB clusters"); err != nil {
			return err
		}
	}
	for _, name := range r.TLS {
		if err := check("--tls-cluster", name, label, "a TidbCluster's name"); err != nil {
			return err
		}
	}
	return check("--role-arn", r.RoleARN, `|arn:aws[a-z-]*:iam::[0-9]{12}:role/\S+`, "a role's ARN")
}

// in returns the roles in the namespace of a TiDB cluster.
func (r Roles) in(namespace string) ([]document, error) {
	roles, err := read("kustomize/base/role.yaml")
	if err != nil {
		return nil, err
	}
	if len(r.TLS) > 0 {
		secrets, err := read("rbac-tls.yaml")
		if err != nil {
			return nil, err
		}
		var names []string
		for _, name := range r.TLS {
			names = append(names, name+"-cluster-client-secret")
		}
		secrets[0].list(names, "rules", "0", "resourceNames")
		roles = append(roles, secrets...)
	}
	for _, d := range roles {
		d.set(namespace, "metadata", "namespace")
	}
	r.bind(roles)
	return roles, nil
}

// bind names roles and bindings after the account, and gives them to it.
func (r Roles) bind(documents []document) {
	for _, d := range documents {
		for _, path := range [][]string{{"metadata", "name"}, {"roleRef", "name"}} {
			if node := d.at(path...); node != nil {
				d.set(strings.Replace(node.Value, "tisnap", r.Account.Name, 1), path...)
			}
		}
		if d.at("subjects") != nil {
			d.set(r.Account.Name, "subjects", "0", "name")
			d.set(r.Account.Namespace, "subjects", "0", "namespace")
		}
	}
}

// Nightly is the backup of each night.
type Nightly struct {
	Name     string
	Account  Account
	Cluster  cluster.Name
	Storage  Storage
	Image    string
	Schedule string   // "" for the default, as in TimeZone and Keep
	TimeZone string   // its name in the tz database
	Keep     []string // prune's flags for what is kept
}

// Objects returns the CronJob, its settings and the pods' NetworkPolicy.
func (n Nightly) Objects() ([]byte, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	settings, err := n.settings()
	if err != nil {
		return nil, err
	}
	rest, err := read("kustomize/base/networkpolicy.yaml", "kustomize/nightly/cronjob.yaml")
	if err != nil {
		return nil, err
	}
	out := append([]document{settings}, rest...)
	for _, d := range out {
		d.set(n.Account.Namespace, "metadata", "namespace")
	}
	job := rest[1]
	job.set(n.Name, "metadata", "name")
	if n.Schedule != "" {
		job.set(n.Schedule, "spec", "schedule")
	}
	if n.TimeZone != "" {
		job.set(n.TimeZone, "spec", "timeZone")
	}
	pod := document{job.at("spec", "jobTemplate", "spec", "template", "spec")}
	pod.set(n.Account.Name, "serviceAccountName")
	pod.set(n.Name, "initContainers", "0", "envFrom", "0", "configMapRef", "name") // the other one is its alias
	pod.set(n.Image, "initContainers", "0", "image")
	pod.set(n.Image, "containers", "0", "image")
	if len(n.Keep) > 0 {
		args := pod.texts("containers", "0", "args")
		isRule := func(arg string) bool { return strings.HasPrefix(arg, "--keep-") }
		at := slices.IndexFunc(args, isRule)
		pod.list(slices.Insert(slices.DeleteFunc(args, isRule), at, n.Keep...), "containers", "0", "args")
	}
	return write(out)
}

func (n Nightly) check() error {
	if err := n.Account.check(); err != nil {
		return err
	}
	if err := check("--name", n.Name, label, "a CronJob's name"); err != nil {
		return err
	}
	if n.Image == "" {
		return missing("--image").WithHint("set it to the image that the nodes pull, such as REGISTRY/tisnap:v1")
	}
	if err := needsRegion(n.Storage); err != nil {
		return err
	}
	if err := check("--schedule", n.Schedule, `|@[a-z]+|\S+( +\S+){4}`, `five fields, such as "17 2 * * *"`); err != nil {
		return err
	}
	return check("--image", n.Image, `\S+`, "an image's name")
}

// settings is the ConfigMap that kustomize would generate.
func (n Nightly) settings() (document, error) {
	folder, err := read("kustomize/nightly/kustomization.yaml")
	if err != nil {
		return document{}, err
	}
	out := document{&yaml.Node{Kind: yaml.MappingNode}}
	out.set("v1", "apiVersion")
	out.set("ConfigMap", "kind")
	out.set(n.Name, "metadata", "name")
	own := map[string]string{
		"AWS_REGION": n.Storage.Region, "TISNAP_STORAGE": n.Storage.String(), "CLUSTER": n.Cluster.String(),
	}
	for _, literal := range folder[0].at("configMapGenerator", "0", "literals").Content {
		name, value, _ := strings.Cut(literal.Value, "=")
		if mine, ok := own[name]; ok {
			value = mine
		}
		out.set(value, "data", name)
		out.at("data", name).LineComment = literal.LineComment
	}
	return out, nil
}
