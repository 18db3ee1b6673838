package archivebench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// In a volume of many files each has a KiB that nothing compresses, and each folder so many of them.
const (
	fileBytes   = 1 << 10
	inAFolder   = 1000
	perFile     = 1700      // bytes of the volume: the file, its inode and name
	besideFiles = 160 << 20 // the journal, and what else the file system takes
)

// makeFiles makes an ext4 file system, with the parameters that mke2fs has for small files, and the files in it, each of
// so many KiB. Only root may mount it.
func makeFiles(ctx context.Context, image string, files, kib int) (err error) {
	empty := func(io.Writer) error { return nil }
	if err := errors.Join(file(image, empty), os.Truncate(image, int64(files*kib)*perFile+besideFiles)); err != nil {
		return err
	}
	if err := command(ctx, "mke2fs", "-q", "-F", "-t", "ext4", "-T", "small", "-N", fmt.Sprint(files*kib*11/10+1000), image); err != nil {
		return err
	}
	return mounted(ctx, image, "loop,noatime", func(top string) error {
		root, err := os.OpenRoot(top)
		if err != nil {
			return err
		}
		defer root.Close()
		return fill(root, files, kib)
	})
}

// fill writes files, folder by folder.
func fill(top *os.Root, files, kib int) error {
	random := newRandom(5)
	for n := range files {
		folder := fmt.Sprintf("%04d", n/inAFolder)
		if n%inAFolder == 0 {
			if err := top.Mkdir(folder, 0o700); err != nil {
				return err
			}
		}
		f, err := top.Create(fmt.Sprintf("%s/%06d", folder, n))
		if err != nil {
			return err
		}
		if err := errors.Join(copyRandom(f, random, int64(kib)*fileBytes), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// mounted mounts an image while do runs.
func mounted(ctx context.Context, image, options string, do func(top string) error) (err error) {
	top := image + ".mnt"
	if err := os.Mkdir(top, 0o700); err != nil {
		return err
	}
	if err := command(ctx, "mount", "-o", options, image, top); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, command(context.WithoutCancel(ctx), "umount", top), os.Remove(top))
	}()
	return do(top)
}

// command runs a program, whose output is in the error.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out)
	}
	return nil
}
