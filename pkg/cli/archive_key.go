package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
)

// archiveKeysDoc is the output of the commands of `tisnap archive key`.
type archiveKeysDoc struct {
	header
	Repository string      `json:"repository"` // its id
	Generation uint32      `json:"generation"` // of the key that encrypts what is written now
	Items      []keyOutput `json:"items"`
}

// keyOutput is a key slot of a repository.
type keyOutput struct {
	Name string `json:"name"`
	slotOutput
}

func keysDoc(id format.RepositoryID, generation uint32, slots []format.Slot) *archiveKeysDoc {
	doc := &archiveKeysDoc{
		header: newHeader("ArchiveKeys"), Repository: id.String(), Generation: generation, Items: []keyOutput{},
	}
	for _, s := range slots {
		doc.Items = append(doc.Items, keyOutput{s.Name, slotOutput{Type: s.Type, Key: s.Key}})
	}
	return doc
}

func (a *app) archiveKeyCommand(repo *repoFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Manage the keys that unlock a repository",
		Long: `Manage the keys that unlock a repository. Each has a slot, in which the repository's key is
encrypted for it. Any one of them unlocks the repository, and whoever loses all has lost its
archives.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.archiveKeyListCommand(repo), a.archiveKeyAddCommand(repo), a.archiveKeyRemoveCommand(repo),
		a.archiveKeyRotateCommand(repo))
	return cmd
}

func (a *app) archiveKeyListCommand(repo *repoFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the keys that unlock a repository",
		Long:    `List the keys that unlock a repository. Nothing is changed.`,
		Example: `  tisnap archive key list --repo s3://archive/prod --repo-identity ops.key`,
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, done, err := a.openRepository(cmd.Context(), repo)
			if err != nil {
				return err
			}
			defer done()
			keys, err := r.ReadKeys(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(keysDoc(keys.ID, keys.Generation, keys.Slots))
		},
	}
	a.localFlag(cmd)
	return cmd
}

func (a *app) archiveKeyAddCommand(repo *repoFlags) *cobra.Command {
	var recipient, passphrase, kmsKey string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a key: an age recipient, a passphrase or a KMS key",
		Long: `Add a key: an age recipient, a passphrase or a KMS key. NAME is for people. It can read all
that is in the repository, and all that will be written until it is removed and the repository's
key is rotated.`,
		Example: `  tisnap archive key add safe --recipient age1… --repo s3://archive/prod --repo-identity ops.key
  tisnap archive key add prod --kms-key arn:aws:kms:… --repo s3://archive/prod --repo-identity ops.key`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := slices.DeleteFunc([]string{recipient, kmsKey, passphrase}, func(s string) bool { return s == "" })
			if len(given) != 1 {
				return usage(cmd, errors.New("give one of --recipient, --new-passphrase-file and --kms-key"))
			}
			added, to := *repo, newKeys{}
			switch added.passphrase = passphrase; {
			case recipient != "":
				to.recipients = given
			case kmsKey != "":
				to.kms = given
			}
			return a.changeKeys(cmd.Context(), repo, func(k *repository.Keys) error {
				slots, err := a.newSlots(cmd.Context(), &added, k.Keyring, to)
				if err != nil {
					return err
				}
				slots[0].Name = args[0]
				return k.Add(slots[0])
			})
		},
	}
	cmd.Flags().StringVar(&recipient, "recipient", "", "age recipient")
	cmd.Flags().StringVar(&passphrase, "new-passphrase-file", "", "file with the passphrase")
	cmd.Flags().StringVar(&kmsKey, "kms-key", "", "ARN of a KMS key")
	return cmd
}

func (a *app) archiveKeyRemoveCommand(repo *repoFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a key, by its name or recipient",
		Long: `Remove a key, by its name or recipient. The last one stays. Whoever has used the removed key may
have kept the repository's own, and whoever has an old copy of repo.json unlocks it still:
archive key rotate protects what is written from then on.`,
		Example: `  tisnap archive key remove safe --repo s3://archive/prod --repo-identity ops.key`,
		Args:    exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeKeys(cmd.Context(), repo, func(k *repository.Keys) error { return k.Remove(args[0]) })
		},
	}
}

func (a *app) archiveKeyRotateCommand(repo *repoFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Make a new key for what is written from now on",
		Long: `Make a new key for what is written from now on, and encrypt it for the same slots. What is there
stays as it is, and readable. Commands that have begun, and resumed runs of theirs, may still write
with the old key. A slot with a passphrase needs it, by --repo-passphrase-file, and one of a KMS key
kms:Encrypt.`,
		Example: `  tisnap archive key rotate --repo s3://archive/prod --repo-identity ops.key`,
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var passphrase string
			if repo.passphrase != "" {
				var err error
				if passphrase, err = repo.readPassphrase(); err != nil {
					return err
				}
			}
			return a.changeKeys(cmd.Context(), repo, func(k *repository.Keys) error {
				return k.Rotate(cmd.Context(), passphrase, a.slotKMS(repo))
			})
		},
	}
}

// changeKeys changes the keys of the repository of the flags, and prints them.
func (a *app) changeKeys(ctx context.Context, repo *repoFlags, change func(*repository.Keys) error) error {
	store, done, err := a.openRepoStore(ctx, repo)
	if err != nil {
		return err
	}
	defer done()
	identities, err := a.identities(repo)
	if err != nil {
		return err
	}
	r, err := repository.Open(ctx, store, identities...)
	if err == nil {
		err = repo.checkID(r, store)
	}
	if err != nil {
		return err
	}
	keys, err := repository.ChangeKeys(ctx, store, identities, func(k *repository.Keys) error {
		if k.Repository() != r.ID() {
			return failure.New(failure.Conflict, "", "", "it was replaced meanwhile by repository %s", k.Repository())
		}
		return change(k)
	})
	if err != nil {
		return err
	}
	if len(keys.Slots) == 1 {
		a.warn(errOneKey())
	}
	return a.print(keysDoc(keys.Repository(), keys.Generation(), keys.Slots))
}

// errOneKey warns of a repository that one loss makes unreadable.
func errOneKey() error {
	return errors.New("the repository has ONE key: if it is lost, all archives are lost for good. Keep copies of it " +
		"in different places, or add another one by `tisnap archive key add`")
}

func (d *archiveKeysDoc) names() (names []string) {
	for _, i := range d.Items {
		names = append(names, nameIf(true, "key", i.Name)...)
	}
	return names
}

func (d *archiveKeysDoc) table(w io.Writer, v view) error {
	if _, err := fmt.Fprintf(w, "repository  %s\ngeneration  %d\n\n", d.Repository, d.Generation); err != nil {
		return err
	}
	t := newTable("NAME", "TYPE", "RECIPIENT")
	for _, i := range d.Items {
		t.row(i.Name, i.Type, i.Key)
	}
	return t.write(w, v)
}

// recipientOf reads an age recipient.
func recipientOf(text string) (age.Recipient, error) {
	to, err := age.ParseRecipients(strings.NewReader(text))
	if err != nil || len(to) != 1 {
		return nil, failure.New(failure.Usage, "read --recipient", text, "it is no age recipient").
			WithHint("give what `age-keygen -y FILE` prints: age1…")
	}
	return to[0], nil
}
