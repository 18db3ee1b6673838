package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/storage"
)

// archiveInitDoc is the output of `tisnap archive init`.
type archiveInitDoc struct {
	header
	Repository string       `json:"repository"` // its id
	URL        string       `json:"url"`
	Slots      []slotOutput `json:"slots"`
}

// slotOutput is a key slot of a repository.
type slotOutput struct {
	Type string `json:"type"`
	Key  string `json:"key,omitempty"` // an age recipient
}

func (a *app) archiveInitCommand(repo *repoFlags) *cobra.Command {
	var recipients []string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a repository for archives",
		Long: `Create a repository for archives.

Its key is encrypted for each --recipient, and for the passphrase of --repo-passphrase-file:
any one of them unlocks the repository, and without all of them its archives are lost. Give
two at least, and keep them apart. The storage has to honour conditional writes, which is
proven first. Keep the id that is printed: with --repo-id, another repository at the same
place is refused.`,
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
			doc, err := a.archiveInit(cmd.Context(), repo, recipients)
			if err != nil {
				return err
			}
			if len(doc.Slots) == 1 {
				a.warn(errors.New("the repository has ONE key: if it is lost, all archives are lost for good. Keep " +
					"copies of it in different places"))
			}
			return a.print(doc)
		},
	}
	cmd.Flags().StringSliceVar(&recipients, "recipient", nil, "age recipient who can unlock it; may be repeated")
	return cmd
}

func (a *app) archiveInit(ctx context.Context, repo *repoFlags, recipients []string) (*archiveInitDoc, error) {
	keys, err := format.NewKeyring()
	if err != nil {
		return nil, err
	}
	slots, err := repo.newSlots(keys, recipients)
	if err != nil {
		return nil, err
	}
	store, done, err := a.openRepoStore(ctx, repo)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := storage.Prove(ctx, store); err != nil {
		return nil, err
	}
	r, err := repository.Init(ctx, store, keys, slots, format.Settings{
		PackSize: repository.DefaultPackSize,
		Storage:  format.Storage{ConditionalCreate: true, ConditionalReplace: true}, // proven above
	})
	if err != nil {
		return nil, err
	}
	doc := &archiveInitDoc{header: newHeader("ArchiveRepository"), Repository: r.ID().String(), URL: store.URL()}
	for _, s := range slots {
		doc.Slots = append(doc.Slots, slotOutput{Type: s.Type, Key: s.Key})
	}
	return doc, nil
}

// newSlots encrypts the key for each recipient, and for the passphrase if there is one.
func (f *repoFlags) newSlots(keys *format.Keyring, recipients []string) (slots []format.Slot, err error) {
	const op = "read --recipient"
	seen := map[string]bool{}
	for _, text := range recipients {
		to, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil || len(to) != 1 {
			return nil, failure.New(failure.Usage, op, text, "it is no age recipient").
				WithHint("give what `age-keygen -y FILE` prints: age1…")
		}
		if seen[text] {
			return nil, failure.New(failure.Usage, op, text, "it is given twice")
		}
		seen[text] = true
		slot, err := keys.AgeSlot(fmt.Sprintf("age-%d", len(slots)+1), text, to[0])
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
			WithHint("give --recipient age1…, --repo-passphrase-file FILE, or better both")
	}
	return slots, nil
}

func (d *archiveInitDoc) names() []string { return nameIf(true, "repository", d.Repository) }

func (d *archiveInitDoc) table(w io.Writer, _ view) error {
	_, err := fmt.Fprintf(w, "repository  %s\nurl         %s\nkeys        %d\n", d.Repository, oneLine(d.URL),
		len(d.Slots))
	for _, s := range d.Slots {
		if err == nil {
			_, err = fmt.Fprintf(w, "  %s\n", oneLine(strings.TrimSpace(s.Type+" "+s.Key)))
		}
	}
	return err
}
