// Mutants measures what the tests of a package notice. It draws mutants of the package, small changes of its code,
// and runs for each the tests of the package and then those of the packages that import it, until one fails. Nearer
// packages come first, internal/e2e with -short last. The working tree stays as it is.
//
//	go run ./.ci/mutants store/changefeed                   ten mutants, by a random seed, which is printed
//	go run ./.ci/mutants -n 20 -seed 7 store/changefeed
//
// A mutant that does not compile is drawn again. A test that fails is run again alone, or with its package, so that
// a flaky one does not count. Tests that take three times as long as usual, and at least a minute, hang. A mutant
// that survives is a missing test, or changes nothing that matters: that is for the reader to decide.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	n := flag.Int("n", 10, "number of mutants")
	seed := flag.Uint64("seed", rand.Uint64N(1_000_000), "seed")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: go run ./.ci/mutants [-n number] [-seed seed] package")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := sample(ctx, flag.Arg(0), *n, *seed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sample draws n mutants of the package in a folder, and reports what becomes of each.
func sample(ctx context.Context, folder string, n int, seed uint64) error {
	limitMemory()
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := findPackages(folder)
	if err != nil {
		return err
	}
	var all []mutant
	for _, file := range p.files {
		mutants, err := mutantsOf(file)
		if err != nil {
			return err
		}
		all = append(all, mutants...)
	}
	fmt.Printf("seed %d: %d of %d mutants of %s\n", seed, n, len(all), folder)
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tests := &tests{dir, p, map[string]time.Duration{}}
	tried, results := 0, map[outcome]int{}
	for _, m := range all {
		if tried == n {
			break
		}
		result, by, err := try(ctx, m, dir, tests)
		if err != nil {
			return err
		}
		results[result]++
		if result == notCompiled {
			continue
		}
		tried++
		file, _ := filepath.Rel(p.root, m.file)
		fmt.Printf("%s:%d: %s: %v%s\n", file, m.line, m.change, result, by)
	}
	fmt.Printf("%d of %d caught, %d of them by packages above; %d hang, %d survived; %d did not compile\n",
		results[caught]+results[caughtAbove], tried, results[caughtAbove],
		results[hangs], results[survived], results[notCompiled])
	return nil
}

// try applies a mutant by an overlay, which go uses in place of the file.
func try(ctx context.Context, m mutant, dir string, t *tests) (result outcome, by string, err error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return 0, "", err
	}
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: changed}})
	if err != nil {
		return 0, "", err
	}
	if err := os.WriteFile(changed, m.apply(source), 0o600); err != nil {
		return 0, "", err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return 0, "", err
	}
	return t.try(ctx, "-overlay="+overlay)
}
