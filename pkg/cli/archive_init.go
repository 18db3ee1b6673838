package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/storage"
)

// archiveInitDoc is the output of `tisnap archive init`.
type archiveInitDoc struct {
	header
	Repository string       `json:"repository"` // its id
	URL        string       `json:"url"`
	Writers    string       `json:"writers"`    // at the same time: many, or one
	ObjectLock bool         `json:"objectLock"` // of the bucket
	Slots      []slotOutput `json:"slots"`
}

// slotOutput is a key slot of a repository.
type slotOutput struct {
	Type string `json:"type"`
	Key  string `json:"key,omitempty"` // an age recipient, or the ARN of a KMS key
}

func (a *app) archiveInitCommand(repo *repoFlags) *cobra.Command {
	var to newKeys
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a repository for archives",
		Long: `Create a repository for archives.

Its key is encrypted for each --recipient, for the passphrase of --repo-passphrase-file, and by
each --kms-key: any one of them unlocks the repository, and without all of them its archives are
lost. Give two at least, and keep them apart. Whether the storage honours conditional writes is tried
first: without them only one command may write at a time, which describe shows. Keep the id that
is printed: with --repo-id, another repository at the same place is refused.`,
		Example: `  age-keygen -o ops.key    # prints its recipient, age1…
  tisnap archive init --repo s3://archive/prod --recipient age1… --recipient age1…
  tisnap archive init --repo file:///mnt/archive --recipient age1… --repo-passphrase-file safe.txt`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, flag := range []string{"repo-identity", "repo-id"} {
				if typed(cmd, flag) {
					return usage(cmd, fmt.Errorf("--%s is for a repository that exists: give --recipient", flag))
				}
			}
			doc, err := a.archiveInit(cmd.Context(), repo, to)
			if err != nil {
				return err
			}
			if len(doc.Slots) == 1 {
				a.warn(errOneKey())
			}
			return a.print(doc)
		},
	}
	cmd.Flags().StringSliceVar(&to.recipients, "recipient", nil, "age recipient who can unlock it; may be repeated")
	cmd.Flags().StringSliceVar(&to.kms, "kms-key", nil, "ARN of a KMS key that can unlock it; may be repeated")
	return cmd
}

func (a *app) archiveInit(ctx context.Context, repo *repoFlags, to newKeys) (*archiveInitDoc, error) {
	keys, err := format.NewKeyring()
	if err != nil {
		return nil, err
	}
	slots, err := a.newSlots(ctx, repo, keys, to)
	if err != nil {
		return nil, err
	}
	store, done, err := a.openRepoStore(ctx, repo)
	if err != nil {
		return nil, err
	}
	defer done()
	able, err := a.probe(ctx, store)
	if err != nil {
		return nil, err
	}
	r, err := repository.Init(ctx, store, keys, slots, format.Settings{
		PackSize: repository.DefaultPackSize, Storage: able,
	})
	if err != nil {
		return nil, err
	}
	if !able.ManyWriters() {
		a.warn(errors.New("the storage ignores conditional writes: one archive at a time, one prune at a time, and " +
			"none beside the other"))
	}
	doc := &archiveInitDoc{
		header: newHeader("ArchiveRepository"), Repository: r.ID().String(), URL: store.URL(),
		Writers: writers(able), ObjectLock: able.ObjectLock,
	}
	for _, s := range slots {
		doc.Slots = append(doc.Slots, slotOutput{Type: s.Type, Key: s.Key})
	}
	return doc, nil
}

// probe finds out what the storage is able to do.
func (a *app) probe(ctx context.Context, store objstore.Store) (able format.Storage, err error) {
	honours, err := storage.Probe(ctx, store)
	if err != nil {
		return able, err
	}
	able.ConditionalCreate, able.ConditionalReplace = honours.Create, honours.Replace
	if bucket, ok := objstore.BucketOf(store); ok {
		lock, err := bucket.ObjectLock(ctx)
		if err != nil { // the permission is optional, and other servers may not know the call
			a.warn(fmt.Errorf("whether the bucket has Object Lock could not be determined: %w", err))
		}
		able.ObjectLock = lock.Enabled
	}
	return able, nil
}

// writers is how many may write to a repository at the same time.
func writers(s format.Storage) string {
	if s.ManyWriters() {
		return "many"
	}
	return "one"
}

// newKeys are those that a repository is to be unlocked by, besides a passphrase.
type newKeys struct {
	recipients []string // of age
	kms        []string // ARNs of KMS keys
}

// newSlots encrypts the repository's key for each of these, and for the passphrase if there is one.
func (a *app) newSlots(
	ctx context.Context, f *repoFlags, keys *format.Keyring, to newKeys,
) (slots []format.Slot, err error) {
	seen := map[string]bool{}
	once := func(flag, text string) error {
		if seen[text] {
			return failure.New(failure.Usage, "read "+flag, text, "it is given twice")
		}
		seen[text] = true
		return nil
	}
	for _, text := range to.recipients {
		recipient, err := recipientOf(text)
		if err == nil {
			err = once("--recipient", text)
		}
		if err != nil {
			return nil, err
		}
		slot, err := keys.AgeSlot(fmt.Sprintf("age-%d", len(slots)+1), text, recipient)
		if err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
	for i, key := range to.kms {
		if err := once("--kms-key", key); err != nil {
			return nil, err
		}
		slot, err := keys.KMSSlot(ctx, fmt.Sprintf("kms-%d", i+1), key, a.slotKMS(f))
		if err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
	if f.passphrase != "" {
		text, err := f.readPassphrase()
		if err != nil {
			return nil, err
		}
		slot, err := keys.PassphraseSlot("passphrase", text)
		if err != nil {
			return nil, err
		}
		slots = append(slots, slot)
	}
	if len(slots) == 0 {
		return nil, failure.New(failure.Usage, "create repository", f.url, "no key could unlock it").
			WithHint("give --recipient age1…, --repo-passphrase-file FILE or --kms-key ARN, or better two of them")
	}
	return slots, nil
}

func (d *archiveInitDoc) names() []string { return nameIf(true, "repository", d.Repository) }

func (d *archiveInitDoc) table(w io.Writer, _ view) error {
	_, err := fmt.Fprintf(w, "repository  %s\nurl         %s\nwriters     %s\nkeys        %d\n", d.Repository,
		oneLine(d.URL), d.Writers, len(d.Slots))
	for _, s := range d.Slots {
		if err == nil {
			_, err = fmt.Fprintf(w, "  %s\n", oneLine(strings.TrimSpace(s.Type+" "+s.Key)))
		}
	}
	return err
}
