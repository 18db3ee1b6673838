package objstore

import (
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
)

// Location identifies a store however it is reached: the bucket and prefix, without endpoint and region, or the folder
// with its symbolic links resolved.
func Location(s Store) string {
	u, err := url.Parse(s.URL())
	if err != nil || u.Scheme != "file" {
		return s.URL()
	}
	u.Path = realPath(u.Path)
	return u.String()
}

// realPath resolves the links in the existing part of a path: a store's first write creates its folder.
func realPath(path string) string {
	found, err := filepath.EvalSymlinks(path)
	if err == nil {
		return found
	}
	parent := filepath.Dir(path)
	if !errors.Is(err, fs.ErrNotExist) || parent == path {
		return filepath.Clean(path)
	}
	return filepath.Join(realPath(parent), filepath.Base(path))
}

// Server identifies the store's server: an S3 endpoint, "Amazon S3", or the location of a store without a server.
func Server(s Store) string {
	if at, ok := s.(interface{ server() string }); ok {
		return at.server()
	}
	return Location(s)
}

func (a askFirst) server() string { return Server(a.Store) }

func (s *s3Store) server() string {
	if endpoint := s.client.Options().BaseEndpoint; endpoint != nil {
		return *endpoint
	}
	return "Amazon S3"
}
