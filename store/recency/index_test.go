package recency

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"byline/store/blog"
)

// timeline is what an index is loaded from, and a model of what it finds.
type timeline struct {
	r       *rand.Rand
	entries []blog.AuthoredEntry // newest first
}

func compare(a, b blog.AuthoredEntry) int { return -positionOf(a.Entry).compare(positionOf(b.Entry)) }

// add adds a post by one of ten authors, often of the same millisecond as others.
func (l *timeline) add(number, millis int) blog.AuthoredEntry {
	e := blog.AuthoredEntry{Entry: blog.Entry{CreatedAt: blog.NewDate(time.UnixMilli(int64(1e12 + millis))),
		ID: fmt.Sprintf("p%d", (number*7919)%100_003)}, AuthorID: fmt.Sprint("author", l.r.IntN(10))}
	i, _ := slices.BinarySearchFunc(l.entries, e, compare)
	l.entries = slices.Insert(l.entries, i, e)
	return e
}

func (l *timeline) remove() blog.AuthoredEntry {
	i := l.r.IntN(len(l.entries))
	e := l.entries[i]
	l.entries = slices.Delete(l.entries, i, i+1)
	return e
}

func (l *timeline) read(after blog.Entry, n int) (entries []blog.AuthoredEntry, end bool, err error) {
	for _, e := range l.entries {
		if after.ID == "" || positionOf(e.Entry).compare(positionOf(after)) < 0 {
			if entries = append(entries, e); len(entries) == n {
				return entries, false, nil
			}
		}
	}
	return entries, true, nil
}

// of returns the entries of authors that are older than after and, unless that is the zero Entry, not older than floor.
func (l *timeline) of(authors *Authors, after, floor blog.Entry) (found []blog.Entry) {
	for _, e := range l.entries {
		at := positionOf(e.Entry)
		if authors.Has(e.AuthorID) && (after.ID == "" || at.compare(positionOf(after)) < 0) &&
			(floor.ID == "" || at.compare(positionOf(floor)) >= 0) {
			found = append(found, e.Entry)
		}
	}
	return found
}

// An index that is told of all changes finds what its timeline has from the floor on, in order, whatever it has loaded
// and evicted.
func TestIndex_Model(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		most := 1 + r.IntN(60)
		x, l := New(most), &timeline{r: r}
		number := 0
		for ; number < r.IntN(100); number++ {
			l.add(number, r.IntN(1000))
		}
		for range 300 {
			switch r.IntN(10) {
			case 0, 1, 2: // mostly a new post
				millis := 1000 + number
				if r.IntN(4) == 0 {
					millis = r.IntN(1000)
				}
				e := l.add(number, millis)
				number++
				x.Add(e)
				x.Add(e) // and again, by the other tail
			case 3:
				if len(l.entries) > 0 {
					x.Remove(l.remove().Entry)
				}
			case 4, 5:
				n := 1 + r.IntN(20)
				if err := x.Load(t.Context(), x.floor.entry(), func() ([]blog.AuthoredEntry, bool, error) {
					read, end, err := l.read(x.floor.entry(), n)
					x.Add(l.add(number, r.IntN(1000))) // after the read
					number++
					return read, end, err
				}); err != nil {
					t.Fatal(err)
				}
			case 6:
				if err := x.Load(t.Context(), x.floor.entry(), func() ([]blog.AuthoredEntry, bool, error) {
					return nil, false, errors.New("not read")
				}); err == nil && x.Room() {
					t.Fatal("no error")
				}
			case 7:
				if r.IntN(10) == 0 {
					x.Reset()
				}
			default:
				ids := []string{"unknown"}
				for i := range r.IntN(10) {
					ids = append(ids, fmt.Sprint("author", i))
				}
				authors, after := NewAuthors(ids), blog.Entry{}
				if len(l.entries) > 0 && r.IntN(2) == 0 {
					after = l.entries[r.IntN(len(l.entries))].Entry
				}
				n := 1 + r.IntN(20)
				found, floor, all := x.Scan(authors, after, n)
				if len(found) < n && floor.ID == "" && !all {
					if len(found) > 0 {
						t.Fatalf("found %v without a floor", found)
					}
					continue // nothing is loaded
				}
				if all {
					floor = blog.Entry{}
				}
				want := l.of(authors, after, floor)
				if len(found) >= n {
					want = l.of(authors, after, blog.Entry{})
				}
				want = want[:min(n, len(want))]
				if d := cmp.Diff(want, found); d != "" {
					t.Fatalf("%d of %d posts after %v, floor %v, -want +got\n%s", n, most, after, floor, d)
				}
			}
			if posts, _ := x.Size(); posts > most {
				t.Fatalf("%d posts, want at most %d", posts, most)
			}
		}
	}
}

// A post that is removed stays removed, although an older report of it arrives.
func TestIndex_LateReport(t *testing.T) {
	x, l := New(10), &timeline{r: rand.New(rand.NewPCG(1, 1))}
	if err := x.Load(t.Context(), x.floor.entry(), func() ([]blog.AuthoredEntry, bool, error) {
		return nil, true, nil
	}); err != nil {
		t.Fatal(err)
	}
	e := l.add(1, 1)
	x.Add(e)
	x.Remove(e.Entry)
	if x.Add(e) {
		t.Error("it is added again")
	}
	if found, _, _ := x.Scan(NewAuthors([]string{e.AuthorID}), blog.Entry{}, 1); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// Of calls with one floor, one reads.
func TestIndex_LoadOnce(t *testing.T) {
	x, l := New(10), &timeline{r: rand.New(rand.NewPCG(1, 1))}
	for i := range 4 {
		l.add(i, i)
	}
	reads := 0
	for range 3 {
		if err := x.Load(t.Context(), blog.Entry{}, func() ([]blog.AuthoredEntry, bool, error) {
			reads++
			return l.read(blog.Entry{}, 2)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := x.Size(); reads != 1 || n != 2 {
		t.Errorf("%d reads of %d posts, want 1 of 2", reads, n)
	}
}

// What was read before a reset is discarded, as the index was not told of what was written since.
func TestIndex_ResetWhileLoading(t *testing.T) {
	x, l := New(10), &timeline{r: rand.New(rand.NewPCG(1, 1))}
	e := l.add(1, 1)
	if err := x.Load(t.Context(), x.floor.entry(), func() ([]blog.AuthoredEntry, bool, error) {
		x.Reset()
		return l.read(blog.Entry{}, 10)
	}); err != nil {
		t.Fatal(err)
	}
	if found, floor, all := x.Scan(NewAuthors([]string{e.AuthorID}), blog.Entry{}, 1); len(found) > 0 || floor.ID != "" || all {
		t.Errorf("found %v from %v on, all: %t", found, floor, all)
	}
}

// An index takes some 45 bytes a post, also after twice as many new ones.
func TestIndex_Bytes(t *testing.T) {
	const posts = 50_000
	x, l := New(posts), &timeline{r: rand.New(rand.NewPCG(1, 1))}
	entry := func(i int) blog.AuthoredEntry {
		return blog.AuthoredEntry{Entry: blog.Entry{CreatedAt: blog.NewDate(time.UnixMilli(int64(1e12 + i))),
			ID: blog.PostID([10]byte{byte(i), byte(i >> 8), byte(i >> 16)})}, AuthorID: fmt.Sprint(l.r.IntN(1000))}
	}
	if err := x.Load(t.Context(), x.floor.entry(), func() (all []blog.AuthoredEntry, _ bool, _ error) {
		for i := range posts {
			all = append(all, entry(posts-i))
		}
		return all, false, nil
	}); err != nil {
		t.Fatal(err)
	}
	_, loaded := x.Size()
	for i := range 2 * posts {
		x.Add(entry(posts + 1 + i))
	}
	n, bytes := x.Size()
	t.Logf("%d bytes a post, then %d", loaded/posts, bytes/posts)
	if n != posts || loaded > 50*posts || bytes > 65*posts {
		t.Errorf("%d posts, %d bytes, then %d", n, loaded, bytes)
	}
}

// BenchmarkIndex_Scan scans an index for a viewer who follows nobody with a post, the worst case.
func BenchmarkIndex_Scan(b *testing.B) {
	for _, posts := range []int{100_000, 1_000_000} {
		for _, follows := range []int{50, 200, 2000} {
			b.Run(fmt.Sprintf("%d posts/%d follows", posts, follows), func(b *testing.B) {
				x := New(posts)
				if err := x.Load(b.Context(), x.floor.entry(), func() (all []blog.AuthoredEntry, _ bool, _ error) {
					for i := range posts {
						all = append(all, blog.AuthoredEntry{Entry: blog.Entry{
							CreatedAt: blog.NewDate(time.UnixMilli(int64(1e12 - i))),
							ID:        blog.PostID([10]byte{byte(i), byte(i >> 8), byte(i >> 16)})},
							AuthorID: fmt.Sprint(i % 10_000)})
					}
					return all, true, nil
				}); err != nil {
					b.Fatal(err)
				}
				var ids []string
				for i := range follows {
					ids = append(ids, fmt.Sprint("x", i))
				}
				authors := NewAuthors(ids)
				for b.Loop() {
					x.Scan(authors, blog.Entry{}, 21)
				}
				_, bytes := x.Size()
				b.ReportMetric(float64(bytes)/float64(posts), "B/post")
			})
		}
	}
}
