package operator1

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// Changes is how the user wants a target to differ from its source.
type Changes struct {
	// Manifest is the user's own TidbCluster, used instead of the source's; nil uses the source's.
	Manifest json.RawMessage
	// Patches are applied in order to the result: a list is a JSON Patch (RFC 6902), an object a merge patch (RFC
	// 7386). Kubernetes has no strategic merge for custom resources, as it would need their Go types.
	Patches []json.RawMessage
	// Smallest makes the smallest cluster that a drill can check, before the patches.
	Smallest bool
}

// Any reports whether there are changes.
func (c *Changes) Any() bool { return c.Manifest != nil || len(c.Patches) > 0 || c.Smallest }

// ReadManifest finds the TidbCluster among the objects of a YAML or JSON text. None, or several, is Usage.
func ReadManifest(text []byte, file string) (json.RawMessage, error) {
	const op = "read manifest"
	var found json.RawMessage
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, failure.Wrap(err, failure.Usage, op, file)
		}
		object, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, failure.Wrap(err, failure.Usage, op, file)
		}
		var kind metav1.TypeMeta
		if json.Unmarshal(object, &kind) != nil || kind.Kind != "TidbCluster" {
			continue
		}
		if found != nil {
			return nil, failure.New(failure.Usage, op, file, "it has more than one TidbCluster").
				WithHint("use a file with only the TidbCluster to restore")
		}
		found = object
	}
	if found == nil {
		return nil, failure.New(failure.Usage, op, file, "it has no TidbCluster").
			WithHint("use a file with a TidbCluster (kind: TidbCluster), such as one written by --print-manifest")
	}
	return found, nil
}

// ReadPatch reads a patch of Changes from YAML or JSON. Anything else is Usage.
func ReadPatch(text []byte, file string) (json.RawMessage, error) {
	const op = "read patch"
	patch, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, op, file)
	}
	switch {
	case isList(patch):
		_, err = jsonpatch.DecodePatch(patch)
	case !bytes.HasPrefix(bytes.TrimSpace(patch), []byte("{")):
		err = errors.New("it is neither a list of operations (JSON Patch) nor an object (merge patch)")
	}
	return patch, failure.Wrap(err, failure.Usage, op, file)
}

func isList(patch json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(patch), []byte("[")) }

// patched applies the patches to a target's object. The object is not changed.
func (c *Changes) patched(content map[string]any, target cluster.Name) (map[string]any, error) {
	const op = "patch tidbcluster"
	if len(c.Patches) == 0 {
		return content, nil
	}
	object, err := json.Marshal(content)
	if err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, op, target.String())
	}
	for _, patch := range c.Patches {
		if object, err = applyPatch(object, patch); err != nil {
			return nil, failure.New(failure.Usage, op, target.String(), "%w", err).
				WithHint("print what the patch is applied to: --print-manifest, without --patch")
		}
	}
	var out map[string]any
	if err := decodeObject(object, &out); err != nil {
		return nil, failure.Wrap(err, failure.Usage, op, target.String())
	}
	return out, nil
}

func applyPatch(object []byte, patch json.RawMessage) ([]byte, error) {
	if !isList(patch) {
		return jsonpatch.MergePatch(object, patch)
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.Apply(object)
}

// TargetManifest returns the TidbCluster that CreateCluster creates, as YAML without the run's mark: as
// Changes.Manifest it makes the same cluster.
func TargetManifest(source json.RawMessage, to Target) ([]byte, error) {
	made, err := Make(source, to)
	if err != nil {
		return nil, err
	}
	o := made.Object
	withFailover(o)
	annotations, labels := o.GetAnnotations(), o.GetLabels()
	delete(annotations, runmark.Key)
	delete(labels, runmark.Key)
	o.SetAnnotations(annotations)
	o.SetLabels(labels)
	text, err := yaml.Marshal(o.Object)
	return text, failure.Wrap(err, failure.Corrupt, "print tidbcluster", to.Name.String())
}

// decodeObject keeps whole numbers whole.
func decodeObject(raw []byte, into *map[string]any) error { return utiljson.Unmarshal(raw, into) }
