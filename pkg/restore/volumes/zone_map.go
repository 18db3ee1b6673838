package volumes

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// ZonePair is one entry of an AZ map, for volumes from zone From to zone To. Each is a zone's name ("us-west-2a"), the
// end of one ("2a"), or a zone's id ("usw2-az1"), which, unlike names, means the same place in every account.
type ZonePair struct{ From, To string }

// ParseZonePairs parses "2a=2b" entries. Anything else, or a zone mapped twice, is a Usage error.
func ParseZonePairs(entries []string) ([]ZonePair, error) {
	var pairs []ZonePair
	seen := map[string]bool{}
	for _, entry := range entries {
		from, to, ok := strings.Cut(entry, "=")
		from, to = strings.TrimSpace(from), strings.TrimSpace(to)
		if !ok || from == "" || to == "" || strings.Contains(to, "=") {
			return nil, failure.New(failure.Usage, "read AZ map", entry, "want FROM=TO").
				WithHint("write it as us-west-2a=us-west-2b")
		}
		if seen[from] {
			return nil, failure.New(failure.Usage, "read AZ map", entry, "%s is mapped twice", from).
				WithHint("name each zone once")
		}
		seen[from] = true
		pairs = append(pairs, ZonePair{From: from, To: to})
	}
	return pairs, nil
}

// zoneSet maps zones to their ids, if known.
type zoneSet map[cluster.Zone]string

// named finds the zone that a word means; "" if none or several.
func (z zoneSet) named(word string) cluster.Zone {
	var found cluster.Zone
	for name, id := range z {
		if string(name) == word || (id != "" && id == word) {
			return name
		}
		if strings.HasSuffix(string(name), "-"+word) {
			if found != "" {
				return ""
			}
			found = name
		}
	}
	return found
}

func (z zoneSet) withID(id string) cluster.Zone {
	for name, of := range z {
		if id != "" && of == id {
			return name
		}
	}
	return ""
}

// String lists the zones by name, with their ids.
func (z zoneSet) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(z)) {
		text := string(name)
		if id := z[name]; id != "" {
			text += " (" + id + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// mapZones returns the target zone for each source zone: all, if given; else the pair's zone; else the zone with the
// same id, if both accounts' ids are known; else the one with the same name. A zone without a target, or a pair that
// maps nothing, is a Usage error.
func mapZones(
	source zoneSet, all cluster.Zone, pairs []ZonePair, target zoneSet,
) (map[cluster.Zone]cluster.Zone, error) {
	out := map[cluster.Zone]cluster.Zone{}
	if all != "" {
		to := target.named(string(all))
		if to == "" {
			return nil, noZone(string(all), target)
		}
		for from := range source {
			out[from] = to
		}
		return out, nil
	}
	for _, p := range pairs {
		from, to := source.named(p.From), target.named(p.To)
		switch {
		case from == "":
			return nil, failure.New(failure.Usage, "map zones", p.From+"="+p.To,
				"the backup has volumes in %s, and %s is none of them", source, p.From).
				WithHint("map the zones of the backup: %s", source)
		case to == "":
			return nil, noZone(p.To, target)
		case out[from] != "":
			return nil, failure.New(failure.Usage, "map zones", p.From+"="+p.To, "%s is mapped twice", from).
				WithHint("name each zone once")
		}
		out[from] = to
	}
	for from, id := range source {
		if out[from] != "" {
			continue
		}
		to := target.withID(id)
		if _, there := target[from]; to == "" && there && (id == "" || target[from] == "") {
			to = from
		}
		if to == "" {
			return nil, failure.New(failure.Usage, "map zones", string(from), "%sthe target has %s",
				elsewhere(from), target).
				WithHint("choose where its volumes go: --az-map %s=%s, or --target-az for all", from, first(target))
		}
		out[from] = to
	}
	return out, nil
}

// MapNamed returns the target zone for each source zone by what the user chose, of zones that are known by name alone;
// see mapZones.
func MapNamed(
	source []cluster.Zone, all cluster.Zone, pairs []ZonePair, target []cluster.Zone,
) (map[cluster.Zone]cluster.Zone, error) {
	from, to := zoneSet{}, zoneSet{}
	for _, zone := range source {
		from[zone] = ""
	}
	for _, zone := range target {
		to[zone] = ""
	}
	return mapZones(from, all, pairs, to)
}

func noZone(word string, target zoneSet) error {
	return failure.New(failure.Usage, "check zone", word, "%sthe target has %s",
		elsewhere(cluster.Zone(word)), target).
		WithHint("name one of them with --target-az or --az-map")
}

// elsewhere refuses zones outside the Region, such as Local Zones: EC2 offers other volume types there, and no fast
// snapshot restore.
func elsewhere(z cluster.Zone) string {
	if kind := z.Kind(); kind != "" {
		return "it is a " + kind + ", where no volumes are restored; "
	}
	return ""
}

func first(z zoneSet) cluster.Zone {
	return cmp.Or(slices.Sorted(maps.Keys(z))...)
}
