package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
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
	Repository string           `json:"repository"` // its id
	URL        string           `json:"url"`
	Writers    string           `json:"writers"`    // at the same time: many, or one
	ObjectLock bool             `json:"objectLock"` // of the bucket
	Retention  *retentionOutput `json:"retention,omitempty"`
	Slots      []slotOutput     `json:"slots"`
}

// retentionOutput is how Object Lock keeps what is written to a repository.
type retentionOutput struct {
	Mode string `json:"mode"`
	Days int    `json:"days"`
}

// retentionOf is nil for a repository without one.
func retentionOf(s format.Settings) *retentionOutput {
	if s.Retention == (format.Retention{}) {
		return nil
	}
	return &retentionOutput{s.Retention.Mode, s.Retention.Days}
}

// String is "30 days, GOVERNANCE"; "" without one.
func (r *retentionOutput) String() string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d days, %s", r.Days, r.Mode)
}

// slotOutput is a key slot of a repository.
type slotOutput struct {
	Type string `json:"type"`
	Key  string `json:"key,omitempty"` // an age recipient, or the ARN of a KMS key
}

func (a *app) archiveInitCommand(repo *repoFlags) *cobra.Command {
	var to newKeys
	var lock retentionFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a repository for archives",
		Long: `Create a repository for archives.

Its key is encrypted for each --recipient, for the passphrase of --repo-passphrase-file, and by
each --kms-key: any one of them unlocks the repository, and without all of them its archives are
lost. Give two at least, and keep them apart. Whether the storage honours conditional writes is tried
first: without them only one command may write at a time, which describe shows. Keep the id that
is printed: with --repo-id, another repository at the same place is refused.

With --retention, S3's Object Lock keeps all that is written for so long, and what archives use for
longer: each prune sees to that. The bucket needs Object Lock. In governance mode a role with
s3:BypassGovernanceRetention can still delete, in compliance mode no one can.`,
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
			keep, err := lock.read()
			if err != nil {
				return usage(cmd, err)
			}
			doc, err := a.archiveInit(cmd.Context(), repo, to, keep)
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
	cmd.Flags().StringVar(&lock.period, "retention", "",
		"how long Object Lock keeps what is written, such as 30d (default: not)")
	cmd.Flags().StringVar(&lock.mode, "retention-mode", "governance", "mode of --retention: governance or compliance")
	complete(cmd, "retention-mode", "governance", "compliance")
	return cmd
}

// retentionFlags are how Object Lock is to keep what is written.
type retentionFlags struct{ period, mode string }

// read is zero for no retention.
func (f *retentionFlags) read() (r format.Retention, err error) {
	if f.mode != "governance" && f.mode != "compliance" {
		return r, fmt.Errorf("--retention-mode %q: want governance or compliance", f.mode)
	}
	if f.period == "" {
		return r, nil
	}
	r.Mode = strings.ToUpper(f.mode)
	days, isDays := strings.CutSuffix(f.period, "d")
	if r.Days, err = strconv.Atoi(days); !isDays || err != nil || r.Days < 1 || r.Days > maxRetentionDays {
		return r, fmt.Errorf("--retention %q: want 1d to %dd", f.period, maxRetentionDays)
	}
	return r, nil
}

// maxRetentionDays is S3's bound of a default retention.
const maxRetentionDays = 36500

func (a *app) archiveInit(
	ctx context.Context, repo *repoFlags, to newKeys, keep format.Retention,
) (*archiveInitDoc, error) {
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
	if keep.Days > 0 && !able.ObjectLock {
		return nil, failure.New(failure.Unready, "create repository", store.URL(),
			"--retention: no Object Lock was found").
			WithHint("enable it on the bucket, and allow s3:GetBucketObjectLockConfiguration")
	}
	r, err := repository.Init(ctx, store, keys, slots, format.Settings{
		PackSize: repository.DefaultPackSize, Storage: able, Retention: keep,
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
		Writers: writers(able), ObjectLock: able.ObjectLock, Retention: retentionOf(r.Settings()),
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
	_, err := fmt.Fprintf(w, "repository  %s\nurl         %s\nwriters     %s\n", d.Repository, oneLine(d.URL),
		d.Writers)
	if err == nil && d.Retention != nil {
		_, err = fmt.Fprintf(w, "retention   %s\n", d.Retention)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "keys        %d\n", len(d.Slots))
	}
	for _, s := range d.Slots {
		if err == nil {
			_, err = fmt.Fprintf(w, "  %s\n", oneLine(strings.TrimSpace(s.Type+" "+s.Key)))
		}
	}
	return err
}
