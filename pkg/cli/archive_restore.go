package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

// archiveRestoreDoc is the output of `tisnap archive restore`.
type archiveRestoreDoc struct {
	header
	Archive string          `json:"archive"`
	Items   []restoredImage `json:"items"`
}

// restoredImage is an image of a volume.
type restoredImage struct {
	archiveVolume
	File   string      `json:"file"`
	Action imageAction `json:"action"`
	Error  string      `json:"error,omitempty"`
}

// imageAction is what was done about an image.
type imageAction string

const (
	imageWritten imageAction = "written"
	imageKept    imageAction = "kept" // it was there, and each of its blocks is the volume's
	imageFailed  imageAction = "failed"
)

func (a *app) archiveRestoreCommand(repo *repoFlags) *cobra.Command {
	var dir string
	var snapshots snapshotFlags
	var volumes claimFlags
	cmd := &cobra.Command{
		Use:   "restore ARCHIVE",
		Short: "Make images, EBS snapshots or volumes in Kubernetes of all archived volumes",
		Long: `Make images, EBS snapshots or volumes in Kubernetes of all archived volumes.

With --to-dir, the images are in a folder, as store-4-storage.data-dir.img, beside the backup's
manifest.json, which an import does not have. Blocks of zeros are holes in them.

An image gets its name once all of it is right and on disk. The same command resumes: an image
that is there is read and compared with the archive, block by block, and kept if it is the
volume's. Another file of its name is never replaced: the command fails.

With --to-snapshots, a snapshot of each volume is made by the EBS direct APIs, in any account and
region, and listed once it is completed. EBS has then checked all blocks. The same command finishes
the snapshots that a killed one began, within 24 hours; afterwards it lists them again. tisnap gc
does not delete them.

With --to-claims, an empty block volume is made for each of them by a claim, with any CSI driver
that has block volumes, and a Job for each store fills them. The claims are listed once they are
filled; the same command resumes, and leaves filled ones alone. --remove removes them. Name the
archive by its id: latest is another one, and so another set of claims, once a newer archive is there.

A volume with damaged blocks gets no image, and its snapshot is never completed; the error names
the blocks, the other volumes are written, and the exit code is 10.`,
		Example: `  tisnap archive restore latest --to-dir /restored --repo s3://archive/prod --repo-identity ops.key
  tisnap archive restore latest --to-snapshots --repo s3://archive/prod --repo-identity ops.key
  tisnap archive restore ARCHIVE --to-claims -n tidb --image REGISTRY/tisnap:v1 --repo s3://archive/prod \
    --repo-identity ops.key`,
		Args: exactly("ARCHIVE"), ValidArgsFunction: a.completeArchives(repo),
		RunE: func(cmd *cobra.Command, args []string) error {
			if one := dir != ""; one && (snapshots.on || volumes.on) || !one && snapshots.on == volumes.on {
				return usage(cmd, errors.New("give --to-dir FOLDER for images, --to-snapshots or --to-claims"))
			}
			if err := errors.Join(snapshots.check(cmd, volumes.on), volumes.check(cmd)); err != nil {
				return usage(cmd, err)
			}
			return a.archiveRestore(cmd.Context(), repo, args[0], dir, snapshots, &volumes)
		},
	}
	cmd.Flags().StringVar(&dir, "to-dir", "", "folder for the images; it is created if it does not exist")
	_ = cmd.MarkFlagDirname("to-dir") // fails only for an unknown flag
	snapshots.add(cmd)
	volumes.add(cmd)
	return cmd
}

func (a *app) archiveRestore(
	ctx context.Context, repo *repoFlags, ref, dir string, snapshots snapshotFlags,
	volumes *claimFlags,
) error {
	ctx, found, err := a.holdArchive(ctx, repo, ref, "restore")
	if err != nil {
		return err
	}
	if volumes.on {
		return found.done(a.archiveClaims(ctx, repo, found.readArchive, volumes, snapshots.run))
	}
	if snapshots.on {
		return found.done(a.archiveSnapshots(ctx, found.readArchive, snapshots))
	}
	return found.done(a.archiveImages(ctx, found.readArchive, dir))
}

func (a *app) archiveImages(ctx context.Context, found readArchive, dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return failure.Wrap(err, failure.Usage, "create folder", dir)
	}
	if !found.archive.Imported() {
		if err := writeManifest(filepath.Join(dir, "manifest.json"), found.archive.Manifest.Data); err != nil {
			return err
		}
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.end()
	doc := &archiveRestoreDoc{header: newHeader("ArchiveRestore"), Archive: found.id, Items: []restoredImage{}}
	var failed []error
	for _, store := range found.archive.Stores {
		for _, v := range store.Volumes {
			w := &volumeWriter{
				repository: found.Repository, volume: v, progress: s.progress,
				name: fmt.Sprintf("store %d %s", store.ID, v.Role),
			}
			image, err := w.image(ctx, dir, store.ID)
			doc.Items = append(doc.Items, image)
			if err == nil {
				continue
			}
			if failed = append(failed, err); !failure.Is(err, failure.Corrupt) {
				return failure.Join(failed...)
			}
		}
	}
	s.end()
	return errors.Join(a.print(doc), failure.Join(failed...))
}

// fileNames are the roles that can be part of a file's name.
var fileNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// image writes the volume's image into a folder, unless it is there.
func (w *volumeWriter) image(ctx context.Context, dir string, store uint64) (restoredImage, error) {
	out := restoredImage{archiveVolume: describeVolume(store, w.volume), Action: imageFailed}
	fail := func(err error) (restoredImage, error) {
		out.Error = failure.Line(err.Error())
		return out, err
	}
	if !fileNames.MatchString(w.volume.Role) {
		return fail(failure.New(failure.Usage, "write image", w.name, "its role cannot be part of a file's name").
			WithHint("write it by `tisnap archive cat`"))
	}
	out.File = filepath.Join(dir, fmt.Sprintf("store-%d-%s.img", store, w.volume.Role))
	kept, err := isImage(ctx, w.repository, w.volume, out.File)
	switch {
	case err != nil:
		return fail(err)
	case kept:
		out.Action = imageKept
		return out, nil
	}
	if err := w.write(ctx, out.File, false); err != nil {
		return fail(err)
	}
	out.Action = imageWritten
	return out, nil
}

// isImage reports whether the file is the volume's image. Another file of its name is a Conflict.
func isImage(ctx context.Context, r *repository.Repository, v format.Volume, path string) (is bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, failure.Wrap(err, failure.Usage, "compare image", path)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return false, failure.Wrap(err, failure.Usage, "compare image", path)
	}
	if info.Mode().IsRegular() && info.Size() == v.Size {
		if is, err = volume.Compare(ctx, r, v, file); err != nil || is {
			return is, err
		}
	}
	return false, failure.New(failure.Conflict, "compare image", path, "it is not the image of this volume").
		WithHint("delete it, or give another folder")
}

// writeManifest writes the backup's manifest, unless it is there.
func writeManifest(path string, text []byte) error {
	is, err := os.ReadFile(path)
	switch {
	case err == nil && bytes.Equal(is, text):
		return nil
	case err == nil:
		return failure.New(failure.Conflict, "write manifest", path, "it is that of another backup").
			WithHint("give another folder")
	case !errors.Is(err, fs.ErrNotExist):
		return failure.Wrap(err, failure.Usage, "write manifest", path)
	}
	return failure.Wrap(os.WriteFile(path, text, 0o600), failure.Usage, "write manifest", path)
}

func (d *archiveRestoreDoc) names() (names []string) {
	for _, i := range d.Items {
		names = append(names, nameIf(i.Action != imageFailed, "image", i.File)...)
	}
	return names
}

func (d *archiveRestoreDoc) table(w io.Writer, v view) error {
	t := newTable("STORE", "ROLE", "SIZE", "DATA", "ACTION", "FILE")
	t.drop = []string{"DATA", "SIZE"}
	for _, i := range d.Items {
		t.row(i.Store, i.Role, iBytes(i.Size), iBytes(i.Saved*volume.BlockSize), i.Action, filepath.Base(i.File))
	}
	return t.write(w, v)
}
