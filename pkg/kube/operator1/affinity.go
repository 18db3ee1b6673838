package operator1

import "slices"

// retarget changes pod selectors from the source's instance to the target's: otherwise a rule such as "no two stores on
// a node" would keep the copy's pods away from the source's, not from each other.
func retarget(value any, source, target string) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			retarget(item, source, target)
		}
	case map[string]any:
		if labels, ok := v["matchLabels"].(map[string]any); ok && labels[InstanceLabel] == source {
			labels[InstanceLabel] = target
		}
		if values, ok := v["values"].([]any); ok && v["key"] == InstanceLabel {
			if i := slices.Index(values, any(source)); i >= 0 {
				values[i] = target
			}
		}
		for _, item := range v {
			retarget(item, source, target)
		}
	}
}
