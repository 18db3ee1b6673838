package generate

import (
	"slices"
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
	return write(out)
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
	folder, err := read(of + "/kustomization.yaml")
	if err != nil {
		return document{}, err
	}
	out := document{&yaml.Node{Kind: yaml.MappingNode}}
	out.set("v1", "apiVersion")
	out.set("ConfigMap", "kind")
	out.set(n.Name, "metadata", "name")
	own := map[string]string{
		"AWS_REGION": n.Storage.Region, "TISNAP_STORAGE": n.Storage.String(), "TISNAP_REPO": n.Repo.String(),
		"CLUSTER": n.Cluster.String(),
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
