package archivebench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sort"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/objstore"
)

const (
	blocksInAPack   = 64
	packsInASegment = format.SegmentBlocks / blocksInAPack
)

// largeRepo serves a repository as large as a fleet's: its maps are full and real, but made again each time that one is
// read; its packs are a list. All else, and packs that were stored, are what the S3 behind it has.
type largeRepo struct {
	*repository.Repository
	bucket, prefix string
	behind         *httputil.ReverseProxy
	segments       map[format.SegmentName]int
	packs          int
	stored         []string // packs that exist
}

func newLargeRepo(r *repository.Repository, bucket, prefix, behind string) (*largeRepo, error) {
	to, err := url.Parse(behind)
	return &largeRepo{
		Repository: r, bucket: bucket, prefix: prefix, segments: map[format.SegmentName]int{},
		behind: &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = p.In.Host }},
	}, err
}

// volume adds a volume with so many full maps.
func (l *largeRepo) volume(role, source string, segments int) (format.Volume, error) {
	blocks := int64(segments) * format.SegmentBlocks
	v := format.Volume{Role: role, Source: source, Size: blocks * codec.MaxBlock, Counts: format.Counts{Saved: blocks}}
	checksum := format.NewChecksum()
	for range segments {
		s := l.segment(len(l.segments))
		name, _, err := s.Seal(l.Keys())
		if err != nil {
			return v, err
		}
		for i := range s {
			checksum.Add(s[i].Block.Digest)
		}
		l.segments[name] = len(l.segments)
		l.packs += packsInASegment
		v.Segments = append(v.Segments, name)
	}
	v.Checksum = checksum.Sum()
	return v, nil
}

// segment is one of the maps, by its number: its packs are full, and its digests do not compress.
func (l *largeRepo) segment(n int) format.Segment {
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], uint64(n)+1)
	random := rand.NewChaCha8(seed)
	s := make(format.Segment, format.SegmentBlocks)
	for i := range s {
		const length = repository.DefaultPackSize / blocksInAPack
		b := format.Block{Raw: codec.MaxBlock, Length: length, Offset: uint32(48 + i%blocksInAPack*length), Codec: codec.InZstd}
		_, _ = random.Read(b.Digest[:]) // has no error
		ref := format.PackRef{Name: packName(n*packsInASegment + i/blocksInAPack)}
		s[i] = format.Place{State: format.Saved, Pack: ref, Block: b}
	}
	return s
}

// packName is that of a pack by its number; later ones sort behind, and all begin differently.
func packName(n int) (p format.PackName) {
	const most = 1 << 24
	binary.BigEndian.PutUint64(p[:], uint64(n)*(math.MaxUint64/most))
	return p
}

// ServeHTTP implements http.Handler.
func (l *largeRepo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	key, is := strings.CutPrefix(r.URL.Path, "/"+l.bucket+"/"+l.prefix)
	if prefix, packs := strings.CutPrefix(query.Get("prefix"), l.prefix+format.PackPrefix); r.Method == http.MethodGet && packs {
		after, _ := strconv.Atoi(query.Get("continuation-token")) // the first page has none
		l.list(w, format.PackPrefix+prefix, after)
		return
	}
	name, err := format.ParseSegmentPath(key)
	n, here := l.segments[name]
	if !is || err != nil || !here || r.Method != http.MethodGet {
		l.behind.ServeHTTP(w, r)
		return
	}
	_, object, err := l.segment(n).Seal(l.Keys())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("ETag", `"e"`)
	http.ServeContent(w, r, "", stamp, bytes.NewReader(object))
}

// listedPack is an object in a listing.
type listedPack struct {
	Key, LastModified, ETag string
	Size                    int64
}

// list answers with the packs below a prefix, a page of which begins behind so many.
func (l *largeRepo) list(w http.ResponseWriter, prefix string, after int) {
	const page = 1000
	of := func(n int) string { return packName(n).Path() }
	from := max(after, sort.Search(l.packs, func(n int) bool { return of(n) >= prefix }))
	to := sort.Search(l.packs, func(n int) bool { return of(n) >= prefix+"~" })
	var out struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []listedPack
	}
	if after == 0 {
		for _, key := range l.stored {
			if strings.HasPrefix(key, prefix) {
				out.Contents = append(out.Contents, l.listed(key))
			}
		}
	}
	for ; from < to && len(out.Contents) < page; from++ {
		out.Contents = append(out.Contents, l.listed(of(from)))
	}
	out.IsTruncated, out.NextContinuationToken = from < to, strconv.Itoa(from)
	text, err := xml.Marshal(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text) // the client sees what it does not get
}

func (l *largeRepo) listed(key string) listedPack {
	return listedPack{l.prefix + key, stamp.Format("2006-01-02T15:04:05.000Z"), `"e"`, repository.DefaultPackSize + 1<<20}
}

// store notes which packs exist.
func (l *largeRepo) store(ctx context.Context, s objstore.Store) error {
	objects, err := s.List(ctx, format.PackPrefix)
	for _, o := range objects {
		l.stored = append(l.stored, o.Key)
	}
	if len(l.stored) == 0 && err == nil {
		err = fmt.Errorf("%s has no packs", s.URL())
	}
	return err
}
