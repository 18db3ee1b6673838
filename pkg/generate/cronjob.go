package generate

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Nightly is the backup of each night, or another CronJob of a cluster.
type Nightly struct {
	Name     string
	Account  Account
	Cluster  cluster.Name
	Storage  Storage
	Repo     Storage // of archives
	KMS      bool    // the pods' role unlocks it, and no Secret
	Workers  int     // pods of a Job that archive; 0: the CronJob's own does
	RoleARN  string  // of those pods' IAM role, for IRSA alone
	Image    string
	Schedule string   // "" for the default, as in TimeZone and Keep
	TimeZone string   // its name in the tz database
	Keep     []string // the flags of prune, or of archive forget, for what is kept
}

// Objects returns the CronJob, its settings and the pods' NetworkPolicy.
func (n Nightly) Objects() ([]byte, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	out, pod, err := n.read("kustomize/nightly", "kustomize/base/networkpolicy.yaml")
	if err != nil {
		return nil, err
	}
	pod.set(n.Name, "initContainers", "0", "envFrom", "0", "configMapRef", "name") // the other one is its alias
	pod.set(n.Image, "initContainers", "0", "image")
	n.keep(pod, "containers", "0", "args")
	return write(out)
}

// keep replaces the rules among these args by the user's, if there are any.
func (n Nightly) keep(pod document, path ...string) {
	if len(n.Keep) == 0 {
		return
	}
	args := pod.texts(path...)
	isRule := func(arg string) bool { return strings.HasPrefix(arg, "--keep-") }
	at := slices.IndexFunc(args, isRule)
	pod.list(slices.Insert(slices.DeleteFunc(args, isRule), at, n.Keep...), path...)
}

// Archives returns the CronJob of the nightly archive, and its settings.
func (n Nightly) Archives() ([]byte, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	if n.Repo == (Storage{}) {
		return nil, missing("--repo").WithHint("set it to what tisnap archive init made: s3://bucket/prefix")
	}
	out, pod, err := n.read("kustomize/archive")
	if err != nil {
		return nil, err
	}
	pod.set(n.Name, "initContainers", "0", "envFrom", "0", "configMapRef", "name") // the others are its aliases
	pod.set(n.Image, "initContainers", "0", "image")
	pod.set(n.Image, "initContainers", "1", "image")
	if n.KMS {
		out[0].remove("TISNAP_REPO_IDENTITY", "data")
		pod.remove("volumes")
		for _, container := range [][]string{{"initContainers", "0"}, {"initContainers", "1"}, {"containers", "0"}} {
			pod.remove("volumeMounts", container...)
		}
	} else {
		pod.set(n.Name+"-key", "volumes", "0", "secret", "secretName")
	}
	n.keep(pod, "initContainers", "1", "args")
	if n.Workers > 0 {
		workers, err := n.workers(out[0])
		if err != nil {
			return nil, err
		}
		out = append(out, workers...)
	}
	return write(out)
}

// workers adds to the settings that the pods of a Job do the work, and returns the role that making it needs, and the
// pods' ServiceAccount.
func (n Nightly) workers(settings document) ([]document, error) {
	const folder = "kustomize/overlays/archive-workers"
	if err := check("--worker-role-arn", n.RoleARN, "|"+roleARN, "a role's ARN"); err != nil {
		return nil, err
	}
	own := map[string]string{
		"TISNAP_WORKERS": strconv.Itoa(n.Workers), "TISNAP_WORKER_SECRET": n.Name + "-key",
		"TISNAP_WORKER_SERVICE_ACCOUNT": n.Account.Name + "-worker",
	}
	if n.KMS {
		own["TISNAP_WORKER_SECRET"] = ""
	}
	if err := settings.literals(folder, own); err != nil {
		return nil, err
	}
	settings.set(n.Image, "data", "TISNAP_IMAGE")
	out, err := read(folder + "/workers.yaml")
	if err != nil {
		return nil, err
	}
	Roles{Account: n.Account}.bind(out)
	for _, d := range out {
		d.set(n.Account.Namespace, "metadata", "namespace")
		if n.RoleARN != "" && d.at("kind").Value == "ServiceAccount" {
			d.set(n.RoleARN, "metadata", "annotations", "eks.amazonaws.com/role-arn")
		}
	}
	return out, nil
}

// Drills returns the CronJob of the weekly drill in place of the backup's, and its settings.
func (n Nightly) Drills() ([]byte, error) {
	if err := n.check(); err != nil {
		return nil, err
	}
	out, pod, err := n.read("kustomize/drill")
	if err != nil {
		return nil, err
	}
	pod.set(n.Name, "containers", "0", "envFrom", "0", "configMapRef", "name")
	return write(out)
}

// read returns the settings and the CronJob of a folder, the objects of more files between them, and the CronJob's pod.
func (n Nightly) read(folder string, more ...string) (all []document, pod document, err error) {
	settings, err := n.settings(folder)
	if err != nil {
		return nil, document{}, err
	}
	rest, err := read(append(more, folder+"/cronjob.yaml")...)
	if err != nil {
		return nil, document{}, err
	}
	all = append([]document{settings}, rest...)
	for _, d := range all {
		d.set(n.Account.Namespace, "metadata", "namespace")
	}
	job := all[len(all)-1]
	job.set(n.Name, "metadata", "name")
	if n.Schedule != "" {
		job.set(n.Schedule, "spec", "schedule")
	}
	if n.TimeZone != "" {
		job.set(n.TimeZone, "spec", "timeZone")
	}
	pod = document{job.at("spec", "jobTemplate", "spec", "template", "spec")}
	pod.set(n.Account.Name, "serviceAccountName")
	pod.set(n.Image, "containers", "0", "image")
	return all, pod, nil
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
func (n Nightly) settings(of string) (document, error) {
	out := document{&yaml.Node{Kind: yaml.MappingNode}}
	out.set("v1", "apiVersion")
	out.set("ConfigMap", "kind")
	out.set(n.Name, "metadata", "name")
	own := map[string]string{
		"AWS_REGION": n.Storage.Region, "TISNAP_STORAGE": n.Storage.String(), "TISNAP_REPO": n.Repo.String(),
		"CLUSTER": n.Cluster.String(),
	}
	return out, out.literals(of, own)
}

// literals adds the settings of a kustomization, some of them with the user's own values.
func (d document) literals(of string, own map[string]string) error {
	folder, err := read(of + "/kustomization.yaml")
	if err != nil {
		return err
	}
	for _, literal := range folder[0].at("configMapGenerator", "0", "literals").Content {
		name, value, _ := strings.Cut(literal.Value, "=")
		if mine, ok := own[name]; ok {
			value = mine
		}
		d.set(value, "data", name)
		d.at("data", name).LineComment = literal.LineComment
	}
	return nil
}
