package manifest

import "encoding/json"

// volumeIDAnnotation is where TiDB Operator looks for the EBS volume of a persistent volume in br's document.
const volumeIDAnnotation = "temporary/volume-id"

// volumeNamed gives the persistent volumes that annotation, as the Operator does in a clustermeta. One without a CSI
// volume, or that is no object, stays as it is.
func volumeNamed(pvs []json.RawMessage) []json.RawMessage {
	var out []json.RawMessage
	for _, raw := range pvs {
		out = append(out, withVolumeID(raw))
	}
	return out
}

func withVolumeID(raw json.RawMessage) json.RawMessage {
	var known struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct{ CSI struct{ VolumeHandle string } }
	}
	var whole, metadata map[string]json.RawMessage
	if json.Unmarshal(raw, &known) != nil || known.Spec.CSI.VolumeHandle == "" || json.Unmarshal(raw, &whole) != nil ||
		json.Unmarshal(whole["metadata"], &metadata) != nil {
		return raw
	}
	annotations := map[string]string{}
	for key, value := range known.Metadata.Annotations {
		annotations[key] = value
	}
	annotations[volumeIDAnnotation] = known.Spec.CSI.VolumeHandle
	var err error
	if metadata["annotations"], err = json.Marshal(annotations); err != nil {
		return raw
	}
	if whole["metadata"], err = json.Marshal(metadata); err != nil {
		return raw
	}
	changed, err := json.Marshal(whole)
	if err != nil {
		return raw
	}
	return changed
}
