package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// repoFlags define which archive repository a command uses, and how it is unlocked. No flag takes a secret.
type repoFlags struct {
	url, id                   string
	region, profile, endpoint string
	identity, passphrase      string // files
}

// add adds the flags.
func (f *repoFlags) add(fl *pflag.FlagSet) {
	f.addPlace(fl)
	fl.StringVar(&f.id, "repo-id", "", "the id that the repository must have, as init printed it; another is refused")
	fl.StringVar(&f.identity, "repo-identity", "", "file with the age identities that unlock the repository")
	fl.StringVar(&f.passphrase, "repo-passphrase-file", "", "file with the passphrase that unlocks the repository")
}

// addPlace adds the flags that say where it is.
func (f *repoFlags) addPlace(fl *pflag.FlagSet) {
	fl.StringVar(&f.url, "repo", "", "archive repository: s3://bucket/prefix or file:///folder")
	fl.StringVar(&f.region, "repo-region", "", "AWS region of the repository (default: that of --region)")
	fl.StringVar(&f.profile, "repo-profile", "", "AWS profile for the repository (default: that of --profile)")
	fl.StringVar(&f.endpoint, "repo-endpoint-url", "",
		"endpoint URL of the repository's S3 (default: that of --endpoint-url)")
}

// openRepository unlocks the repository of the flags. done closes the connection.
func (a *app) openRepository(ctx context.Context, f *repoFlags) (r *repository.Repository, done func(), err error) {
	store, done, err := a.openRepoStore(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	identities, err := a.identities(f)
	if err == nil {
		r, err = repository.Open(ctx, store, identities...)
	}
	if err == nil {
		err = f.checkID(r, store)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return r, done, nil
}

// readArchive is an archive, and the repository that it is in.
type readArchive struct {
	*repository.Repository
	id      string
	archive *format.Archive
}

// openArchive unlocks the repository of the flags, and reads the archive that a reference means. done closes the
// connection.
func (a *app) openArchive(ctx context.Context, f *repoFlags, ref string) (found readArchive, done func(), err error) {
	r, done, err := a.openRepository(ctx, f)
	if err != nil {
		return found, nil, err
	}
	found.Repository = r
	if found.id, found.archive, err = r.Find(ctx, ref); err != nil {
		done()
		return found, nil, err
	}
	return found, done, nil
}

// releaseWithin bounds the end of a lease once the command is done.
const releaseWithin = 10 * time.Second

// reading takes the lease of a reader, so that no prune deletes what it finds afterwards. done ends it: if the lease
// was broken meanwhile, the command's error becomes a Conflict. Who may only read the repository has none, and is
// warned.
func (a *app) reading(
	ctx context.Context, r *repository.Repository, what string,
) (kept context.Context, done func(error) error, err error) {
	l, err := lease.Read(ctx, r.Objects(), what)
	if failure.Is(err, failure.Denied) {
		a.warn(fmt.Errorf("a prune of the repository meanwhile may delete what is read, if it is forgotten: %w", err))
		return ctx, func(err error) error { return err }, nil
	}
	if err != nil {
		return nil, nil, err
	}
	kept, stop := l.Keep(ctx, lease.RenewEvery)
	return kept, func(err error) error {
		stop()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
		defer cancel()
		released := l.Release(ctx)
		if failure.Is(released, failure.Denied) {
			a.warn(fmt.Errorf("prunes wait for this command until they break its lease: %w", released))
			released = nil
		}
		if failure.Is(released, failure.Conflict) { // what is missing may have been deleted since
			return errors.Join(released, err)
		}
		return errors.Join(err, released)
	}, nil
}

// heldArchive is an archive of which nothing is deleted until done.
type heldArchive struct {
	readArchive
	done func(error) error // ends the lease and the connection; see reading
}

// holdArchive is openArchive with the lease of a reader. The context ends once the lease is broken.
func (a *app) holdArchive(
	ctx context.Context, f *repoFlags, ref, what string,
) (kept context.Context, held heldArchive, err error) {
	r, closed, err := a.openRepository(ctx, f)
	if err != nil {
		return nil, held, err
	}
	kept, done, err := a.reading(ctx, r, what)
	if err != nil {
		closed()
		return nil, held, err
	}
	held.done = func(err error) error {
		defer closed()
		return done(err)
	}
	held.Repository = r
	if held.id, held.archive, err = r.Find(kept, ref); err != nil {
		return nil, held, held.done(err)
	}
	return kept, held, nil
}

// archiveMemory is what an archive command may take, besides the program itself. Its buffers, of 150 MiB, stay until it
// ends: without a limit as much garbage would gather beside them.
const archiveMemory = 196 << 20

func (a *app) limitMemory() {
	if a.streams.LimitMemory != nil {
		a.streams.LimitMemory(archiveMemory)
	}
}

// openRepoStore connects to the storage of the repository.
func (a *app) openRepoStore(ctx context.Context, f *repoFlags) (store objstore.Store, done func(), err error) {
	if f.url == "" {
		return nil, nil, failure.New(failure.Usage, "", "", "--repo is missing").
			WithHint("set --repo s3://bucket/prefix or TISNAP_REPO")
	}
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return nil, nil, err
	}
	store, err = a.repoStore(ctx, c, f)
	if err != nil {
		c.close()
		return nil, nil, err
	}
	return store, c.close, nil
}

// repoStore connects to the storage of the repository, which the connections own.
func (a *app) repoStore(ctx context.Context, c *connections, f *repoFlags) (objstore.Store, error) {
	return c.storeAt(ctx, f.url, objstore.Config{
		Region: cmp.Or(f.region, a.global.region), Profile: cmp.Or(f.profile, a.global.profile),
		Endpoint: cmp.Or(f.endpoint, a.global.endpoint), Log: c.log,
	})
}

// identities are the keys that the flags name, and those of AWS KMS that the credentials may use.
func (a *app) identities(f *repoFlags) (out []age.Identity, err error) {
	if f.identity != "" {
		text, err := os.ReadFile(f.identity)
		if err != nil {
			return nil, failure.Wrap(err, failure.Usage, "read --repo-identity", f.identity)
		}
		if out, err = age.ParseIdentities(strings.NewReader(string(text))); err != nil {
			// The parser's error may repeat a part of the key.
			return nil, failure.New(failure.Usage, "read --repo-identity", f.identity, "it has no age identities").
				WithHint("use the file that `age-keygen -o FILE` wrote")
		}
	}
	if f.passphrase != "" {
		text, err := f.readPassphrase()
		if err != nil {
			return nil, err
		}
		identity, err := format.Passphrase(text)
		if err != nil {
			return nil, err
		}
		out = append(out, identity)
	}
	return append(out, format.ByKMS(a.slotKMS(f))), nil
}

// readPassphrase is the file's content without line ends.
func (f *repoFlags) readPassphrase() (string, error) {
	text, err := os.ReadFile(f.passphrase)
	if err != nil {
		return "", failure.Wrap(err, failure.Usage, "read --repo-passphrase-file", f.passphrase)
	}
	passphrase := strings.TrimRight(string(text), "\r\n")
	if passphrase == "" {
		return "", failure.New(failure.Usage, "read --repo-passphrase-file", f.passphrase, "it is empty")
	}
	return passphrase, nil
}

// checkID refuses another repository than the one that the user knows: whoever can write to the storage can put one of
// their own there, for the same recipients.
func (f *repoFlags) checkID(r *repository.Repository, store objstore.Store) error {
	if f.id == "" || f.id == r.ID().String() {
		return nil
	}
	return failure.New(failure.Unready, "open repository", store.URL(), "its id is %s, not %s", r.ID(), f.id).
		WithHint("correct --repo or --repo-id; if both are right, someone has replaced the repository: do not use it")
}
