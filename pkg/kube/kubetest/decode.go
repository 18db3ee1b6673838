package kubetest

import (
	"bytes"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// protobufMagic begins every body in Kubernetes' protobuf, which typed clients send for built-in kinds.
const protobufMagic = "k8s\x00"

// decode reads a body in JSON, YAML or protobuf, with whole numbers as int64.
func decode(body []byte) (object, error) {
	body, err := toJSON(body)
	if err != nil {
		return nil, apierrors.NewBadRequest("the object provided is unrecognized: " + err.Error())
	}
	var o object
	if err := utiljson.Unmarshal(body, &o); err != nil || o == nil {
		return nil, apierrors.NewBadRequest("the object provided is unrecognized (must be of type Object)")
	}
	return o, nil
}

func toJSON(body []byte) ([]byte, error) {
	if bytes.HasPrefix(body, []byte(protobufMagic)) {
		decoded, kind, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return nil, err
		}
		decoded.GetObjectKind().SetGroupVersionKind(*kind)
		return json.Marshal(decoded)
	}
	if json.Valid(body) {
		return body, nil
	}
	return yaml.YAMLToJSON(body)
}
