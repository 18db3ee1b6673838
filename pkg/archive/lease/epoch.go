package lease

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

const (
	// MaxLists is how many lists of condemned objects may wait for leases.
	MaxLists = 16
	// partKeys is how many lines one object of a list has.
	partKeys = 50000
)

// State is the repository's epoch, and what is condemned: the one object that prunes change, each as a whole.
type State struct {
	Epoch int64  `json:"epoch"`
	Lists []List `json:"lists,omitempty"`
	Nonce string `json:"nonce"` // no two versions are equal
}

// List is what was condemned in an epoch.
type List struct {
	Epoch int64    `json:"epoch"`
	Parts []string `json:"parts"` // names of its objects, which begin with the epoch
}

// readState reads the state, and its version; "" before the first prune.
func readState(ctx context.Context, store objstore.Store) (s State, version objstore.Version, err error) {
	text, version, err := store.Get(ctx, format.EpochPath)
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		return s, "", nil
	}
	if err != nil {
		return s, "", failure.Annotate(err, "read epoch", store.URL())
	}
	return s, version, failure.Wrap(json.Unmarshal(text, &s), failure.Corrupt, "read epoch", store.URL())
}

// swap replaces the state, if it is still that version: otherwise Conflict.
func swap(ctx context.Context, store objstore.Store, s State, old objstore.Version) error {
	s.Nonce = rand.Text()
	text, err := json.Marshal(s)
	if err != nil {
		return failure.Wrap(err, failure.Usage, "change epoch", store.URL())
	}
	if old == "" {
		_, err = store.Create(ctx, format.EpochPath, text)
	} else {
		_, err = store.Replace(ctx, format.EpochPath, text, old)
	}
	if err != nil { // it may have happened
		stored, _, readErr := store.Get(ctx, format.EpochPath)
		if readErr == nil && string(stored) == string(text) {
			err = nil
		}
	}
	return failure.Annotate(err, "change epoch", store.URL())
}

// Lists returns what is condemned and not dealt with.
func Lists(ctx context.Context, store objstore.Store) ([]List, error) {
	s, _, err := readState(ctx, store)
	return s.Lists, err
}

// Object is a pack or a segment that is condemned.
type Object struct {
	Key  string
	Size int64
}

// Condemn begins an epoch in which these objects are condemned. A Conflict means that another one began at the same
// time, and this one did not.
func Condemn(ctx context.Context, store objstore.Store, objects []Object) error {
	state, version, err := readState(ctx, store)
	if err != nil {
		return err
	}
	if len(state.Lists) >= MaxLists {
		return failure.New(failure.Unready, "condemn", store.URL(), "%d earlier prunes wait for leases", MaxLists).
			WithHint("`tisnap archive prune --dry-run` lists the leases")
	}
	list := List{Epoch: state.Epoch + 1}
	for part := range slices.Chunk(objects, partKeys) {
		name := fmt.Sprintf("%d-%s", list.Epoch, strings.ToLower(rand.Text()))
		var text []byte
		for _, o := range part {
			text = fmt.Appendf(text, "%s %d\n", o.Key, o.Size)
		}
		if _, err := store.Create(ctx, format.CondemnedPrefix+name, text); err != nil {
			return failure.Annotate(err, "condemn", store.URL())
		}
		list.Parts = append(list.Parts, name)
	}
	state.Epoch, state.Lists = list.Epoch, append(state.Lists, list)
	return swap(ctx, store, state, version)
}

// Tidy deletes the parts of lists that are ended, or were never condemned: prunes died that had begun to.
func Tidy(ctx context.Context, store objstore.Store) error {
	objects, err := store.List(ctx, format.CondemnedPrefix)
	if err != nil || len(objects) == 0 {
		return failure.Annotate(err, "list condemned", store.URL())
	}
	state, version, err := readState(ctx, store)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, list := range state.Lists {
		for _, part := range list.Parts {
			used[format.CondemnedPrefix+part] = true
		}
	}
	epoch := state.Epoch
	var left []string
	for _, o := range objects {
		text, _, _ := strings.Cut(strings.TrimPrefix(o.Key, format.CondemnedPrefix), "-")
		of, err := strconv.ParseInt(text, 10, 64)
		if err == nil && !used[o.Key] {
			left, epoch = append(left, o.Key), max(epoch, of)
		}
	}
	if epoch > state.Epoch { // or a prune that lives may still begin that epoch with such a part
		state.Epoch = epoch
		if err := swap(ctx, store, state, version); err != nil {
			return err
		}
	}
	for _, key := range left {
		if err := store.Delete(ctx, key); err != nil {
			return failure.Annotate(err, "end list", key)
		}
	}
	return nil
}

// Stands reports whether a list is condemned still. Then every client that took its lease so far knows of it, or has a
// lease of an older epoch.
func Stands(ctx context.Context, store objstore.Store, list List) (bool, error) {
	lists, err := Lists(ctx, store)
	return slices.ContainsFunc(lists, list.is), err
}

func (l List) is(o List) bool { return l.Epoch == o.Epoch && slices.Equal(l.Parts, o.Parts) }

// Finish ends a list, whose objects are deleted, or referred to again.
func Finish(ctx context.Context, store objstore.Store, list List) error {
	for {
		state, version, err := readState(ctx, store)
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(state.Lists), list.is)
		if len(left) < len(state.Lists) {
			state.Lists = left
			err = swap(ctx, store, state, version)
		}
		if failure.Is(err, failure.Conflict) {
			continue
		}
		if err != nil {
			return err
		}
		for _, part := range list.Parts {
			if err := store.Delete(ctx, format.CondemnedPrefix+part); err != nil {
				return failure.Annotate(err, "end list", part)
			}
		}
		return nil
	}
}

// Objects returns those of a list; NotFound if it was ended. Anything but packs and segments is Corrupt.
func (l List) Objects(ctx context.Context, store objstore.Store) ([]Object, error) {
	var out []Object
	for _, part := range l.Parts {
		text, _, err := store.Get(ctx, format.CondemnedPrefix+part)
		if err != nil {
			return nil, failure.Annotate(err, "read condemned", part)
		}
		for line := range strings.Lines(string(text)) {
			key, size, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			o := Object{Key: strings.Clone(key)}
			_, pack := format.ParsePackPath(key)
			_, segment := format.ParseSegmentPath(key)
			if o.Size, err = strconv.ParseInt(size, 10, 64); err != nil || pack != nil && segment != nil {
				return nil, failure.New(failure.Corrupt, "read condemned", part, "%q is no pack or segment", line)
			}
			out = append(out, o)
		}
	}
	return out, nil
}
