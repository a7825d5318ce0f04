package search_test

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/enginetest"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/search"
)

// vocabulary is the number of words of the texts. As in English without stop words, the most frequent one is in half of
// the texts, and the others follow Zipf's law.
const (
	vocabulary = 50_000
	flatness   = 50
)

// peerTexts returns texts of 200 to 400 words, and the number of texts that have each of the most frequent words.
func peerTexts(n int) (texts []string) {
	r := rand.New(rand.NewPCG(7, 0))
	z := rand.NewZipf(r, 1.0001, flatness, vocabulary)
	for range n {
		var b strings.Builder
		for range 200 + r.IntN(200) {
			fmt.Fprintf(&b, "w%dx ", z.Uint64())
		}
		texts = append(texts, b.String())
	}
	return texts
}

// frequentPairs returns the n pairs of words that are together in the most texts.
func frequentPairs(texts []string, n int) (pairs []string) {
	const words = 24 // of which the pairs consist
	count := map[string]int{}
	for _, text := range texts {
		var has []int
		for i := range words {
			if strings.Contains(text, fmt.Sprintf("w%dx ", i)) {
				has = append(has, i)
			}
		}
		for at, i := range has {
			for _, j := range has[at+1:] {
				count[fmt.Sprintf("w%dx w%dx", i, j)]++
			}
		}
	}
	for pair := range count {
		pairs = append(pairs, pair)
	}
	slices.SortFunc(pairs, func(a, b string) int { return count[b] - count[a] })
	return pairs[:min(n, len(pairs))]
}

// TestPeer_PostgreSQL compares the most frequent searches with PostgreSQL's, and their charges with what is predicted.
// It prints the time and the bytes of loading the texts, with and without the full-text index. It needs
// BYLINE_TEST_POSTGRES, the number of texts, and psql with the environment of a server: .ci/peersearch.
func TestPeer_PostgreSQL(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("BYLINE_TEST_POSTGRES"))
	if err != nil {
		t.Skip("BYLINE_TEST_POSTGRES is not the number of texts")
	}
	const repeats = 5
	texts := peerTexts(n)
	pairs := frequentPairs(texts, 50)

	loadEngine(t, texts, false)
	searcher := loadEngine(t, texts, true)
	var ours []time.Duration
	found := map[string]bool{}
	worst, most := 0.0, 0.0 // error of a prediction, and charge
	for round := range repeats + 1 {
		for _, pair := range pairs {
			q, err := search.Parse("test", pair)
			if err != nil {
				t.Fatal(err)
			}
			decades, charged := []string{"2020s"}, 0.0
			ctx := cosmos.WithRecorder(t.Context(), func(_ context.Context, o *cosmos.Operation) { charged += o.RU })
			began := time.Now()
			hits, err := searcher.Relevant(ctx, q, search.Filter{}, decades, 21)
			if err != nil {
				t.Fatal(err)
			}
			if found[pair] = len(hits) == 21; round > 0 { // the first one reads the statistics
				ours = append(ours, time.Since(began))
			}
			if round == 1 {
				predicted, known := searcher.RU(q, decades, false, 21)
				worst = max(worst, math.Abs(predicted/charged-1))
				if most = max(most, charged); !known || worst > .2 {
					t.Errorf("%s: predicted %.1f RU, charged %.1f", pair, predicted, charged)
				}
			}
		}
	}
	t.Logf("a search costs at most %.1f RU, predicted with an error of at most %.0f%%", most, worst*100)
	theirs := loadAndQueryPostgres(t, texts, pairs, repeats)
	for _, pair := range pairs {
		if n >= 10_000 && !found[pair] {
			t.Errorf("%s is in fewer than 21 texts", pair)
		}
	}
	p99 := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	a, b := p99(ours), p99(theirs)
	t.Logf("%d texts, %d queries: median %v, p99 %v; PostgreSQL: median %v, p99 %v; ratio of p99 %.2f",
		n, len(pairs), ours[len(ours)/2], a, theirs[len(theirs)/2], b, a.Seconds()/b.Seconds())
	if a > b {
		t.Error("p99 is above PostgreSQL's")
	}
}

// loadEngine loads texts into an engine on the disk.
func loadEngine(t *testing.T, texts []string, indexed bool) *search.Searcher {
	ctx := context.Background()
	dir := t.TempDir()
	engine, err := emulator.Open(dir, emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	account := enginetest.Account(t, engine, cosmos.Options{})
	spec := store.DatabaseSpec("blog", 1000)
	for i := range spec.Containers {
		if !indexed {
			spec.Containers[i].FullText = nil
		}
	}
	if err := store.Provision(ctx, account, spec); err != nil {
		t.Fatal(err)
	}
	c, err := account.Client().NewContainer("blog", blog.SearchContainer)
	if err != nil {
		t.Fatal(err)
	}
	key := azcosmos.NewPartitionKeyString("2020s")
	began := time.Now()
	ru := float32(0)
	for at := 0; at < len(texts); at += 50 {
		batch := c.NewTransactionalBatch(key)
		for i, text := range texts[at:min(at+50, len(texts))] {
			batch.CreateItem(blog.Encode(search.Item{Envelope: blog.Envelope{Type: blog.TypePost}, ID: fmt.Sprint("p", at+i),
				Decade: "2020s", CreatedAt: blog.NewDate(time.UnixMilli(1.7e12 + int64(at+i)*1000)), Text: text, Version: 1}), nil)
		}
		out, err := c.ExecuteTransactionalBatch(ctx, batch, nil)
		if err != nil || !out.Success {
			t.Fatal(err)
		}
		ru += out.RequestCharge
	}
	t.Logf("full-text index %v: %d texts loaded in %.1f s, %d MB, %.0f RU each", indexed, len(texts),
		time.Since(began).Seconds(), bytesOf(dir)>>20, ru/float32(len(texts)))
	container, err := account.Container("blog", blog.SearchContainer)
	if err != nil {
		t.Fatal(err)
	}
	return search.New(container, time.Now, slog.New(slog.DiscardHandler))
}

// bytesOf returns the bytes of the files in a folder.
func bytesOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil { // else it was deleted meanwhile
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// loadAndQueryPostgres loads texts into PostgreSQL with a GIN index, and returns how long the queries take.
func loadAndQueryPostgres(t *testing.T, texts, pairs []string, repeats int) (took []time.Duration) {
	cmd := exec.CommandContext(t.Context(), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", os.DevNull)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer in.Close()
		w := bufio.NewWriter(in)
		defer w.Flush()
		fmt.Fprint(w, "CREATE TABLE posts (id text PRIMARY KEY, text text, "+
			"words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED);\nCOPY posts FROM STDIN;\n")
		for i, text := range texts {
			fmt.Fprintf(w, "p%d\t%s\n", i, text)
		}
		fmt.Fprint(w, "\\.\nCREATE INDEX ON posts USING gin (words);\nVACUUM ANALYZE posts;\n")
		for round := range repeats + 1 {
			if round == 1 { // after a warm-up
				fmt.Fprint(w, "\\timing on\n")
			}
			for _, pair := range pairs {
				fmt.Fprintf(w, "SELECT id, ts_rank(words, q) AS score, left(text, 480) FROM posts, "+
					"plainto_tsquery('english', '%s') q WHERE words @@ q ORDER BY score DESC LIMIT 21;\n", pair)
			}
		}
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var ms float64
		if _, err := fmt.Sscanf(lines.Text(), "Time: %f ms", &ms); err == nil {
			took = append(took, time.Duration(ms*float64(time.Millisecond)))
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(took) != repeats*len(pairs) {
		t.Fatalf("%d times", len(took))
	}
	return took
}
