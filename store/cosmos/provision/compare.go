package provision

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"byline/store/cosmos"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// Difference is a difference between an account and what requests need.
type Difference struct {
	Container string // "" for the account and the database
	Property  string // what differs, such as "partition key"
	Text      string // how it differs, and the consequence
	Breaks    bool   // requests would fail or items be lost; otherwise requests cost more or reads are limited
}

// String returns the container, if any, and the text.
func (d Difference) String() string {
	if d.Container == "" {
		return d.Text
	}
	return "container " + d.Container + ": " + d.Text
}

// Compare returns how the account, a database and its containers differ from what requests need. It
// changes nothing. Throughput, which no Entra identity may read, is compared only with the account's key.
func Compare(ctx context.Context, a *cosmos.Account, spec DatabaseSpec) ([]Difference, error) {
	db, missing, err := readDatabase(ctx, a, spec.Name)
	if err != nil {
		return nil, err
	}
	all := compareAccount(a.Properties())
	if missing {
		all = append(all, Difference{Property: "database", Text: fmt.Sprintf("there is no database %s", spec.Name),
			Breaks: true})
		return append(all, absent(spec.Containers)...), nil
	}
	differ, missingContainers, err := compareContainers(ctx, db, spec.Containers)
	if err != nil {
		return nil, err
	}
	all = append(append(all, absent(missingContainers)...), differ...)
	throughput, err := compareThroughput(ctx, db, spec)
	return append(all, throughput...), err
}

func absent(containers []ContainerSpec) (all []Difference) {
	for _, c := range containers {
		if len(c.FullText) > 0 {
			all = append(all, Difference{c.Name, "container", "it does not exist, so there is no full-text search: the " +
				"account needs the capability EnableNoSQLFullTextSearch", false})
			continue
		}
		all = append(all, Difference{c.Name, "container", "it does not exist", true})
	}
	return all
}

// compareAccount returns how the account's properties differ from what requests need.
func compareAccount(p cosmos.Properties) (all []Difference) {
	if p.MultipleWrites {
		all = append(all, Difference{Property: "multi-region writes", Text: cosmos.ErrMultiRegionWrites.Error(),
			Breaks: true})
	}
	all = append(all, compareRegions(p)...)
	all = append(all, compareConsistency(p)...)
	if p.Consistency == azcosmos.ConsistencyLevelStrong || p.Consistency == azcosmos.ConsistencyLevelBoundedStaleness {
		all = append(all, Difference{Property: "consistency",
			Text: fmt.Sprintf("the default consistency is %s, with which reads cost twice as much as with Session",
				p.Consistency)})
	}
	return all
}

// compareRegions returns the preferred regions that the account does not have.
func compareRegions(p cosmos.Properties) (all []Difference) {
	for _, name := range p.Preferred {
		if !slices.ContainsFunc(p.Regions, func(have string) bool { return plainRegion(have) == plainRegion(name) }) {
			all = append(all, Difference{Property: "regions", Text: fmt.Sprintf(
				"the account cannot be read in the preferred region %s, only in %s", name,
				strings.Join(p.Regions, ", "))})
		}
	}
	return all
}

// plainRegion returns a region's name as azcosmos compares it: "West US" is "westus".
func plainRegion(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// compareConsistency returns a difference if the account's default consistency is weaker than Session,
// which requests cannot strengthen.
func compareConsistency(p cosmos.Properties) []Difference {
	if p.Consistency != azcosmos.ConsistencyLevelEventual &&
		p.Consistency != azcosmos.ConsistencyLevelConsistentPrefix {
		return nil
	}
	return []Difference{{Property: "consistency",
		Text: fmt.Sprintf("the default consistency is %s, so viewers may not read "+
			"their own writes, and renames and deletions may miss items; set it to Session", p.Consistency)}}
}

// compareContainers returns how the containers that exist differ from the specifications, and which
// are missing.
func compareContainers(
	ctx context.Context, db *azcosmos.DatabaseClient, containers []ContainerSpec,
) (all []Difference, missing []ContainerSpec, err error) {
	for _, spec := range containers {
		c, err := db.NewContainer(spec.Name)
		if err != nil {
			return nil, nil, err
		}
		r, err := c.Read(ctx, nil)
		if cosmos.HasStatus(err, http.StatusNotFound) {
			missing = append(missing, spec)
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read container %s: %w", spec.Name, cosmos.ErrorOf(err))
		}
		all = append(all, spec.compare(*r.ContainerProperties)...)
	}
	return all, missing, nil
}

// compare returns how a container differs from the specification. Differences that break requests come
// first.
func (s ContainerSpec) compare(have azcosmos.ContainerProperties) []Difference {
	var all []Difference
	breaks := func(property, format string, args ...any) {
		all = append(all, Difference{s.Name, property, fmt.Sprintf(format, args...), true})
	}
	costs := func(property, format string, args ...any) {
		all = append(all, Difference{s.Name, property, fmt.Sprintf(format, args...), false})
	}
	if paths := have.PartitionKeyDefinition.Paths; !slices.Equal(paths, []string{s.PartitionKey}) {
		breaks("partition key", "it is partitioned by %s, not by %s, and a partition key cannot be changed",
			strings.Join(paths, ", "), s.PartitionKey)
	}
	switch ttl := have.DefaultTimeToLive; {
	case ttl == nil && s.TTL:
		breaks("time to live", "time to live is off, so deleted items would stay")
	case ttl != nil && *ttl > 0:
		breaks("time to live", "the default time to live is %d s, so items would expire", *ttl)
	}
	if have.UniqueKeyPolicy != nil && len(have.UniqueKeyPolicy.UniqueKeys) > 0 {
		breaks("unique keys", "it has unique keys, so items could be refused")
	}
	policy := cmp.Or(have.IndexingPolicy, &azcosmos.IndexingPolicy{})
	if !policy.Automatic || !strings.EqualFold(string(policy.IndexingMode), string(azcosmos.IndexingModeConsistent)) {
		breaks("indexing mode", "the indexing mode is %q with automatic=%t, not %q with automatic=true, "+
			"so queries would fail or miss items",
			policy.IndexingMode, policy.Automatic, azcosmos.IndexingModeConsistent)
		return all // the paths do not matter
	}
	for _, paths := range s.Composite {
		sorts := func(columns []azcosmos.CompositeIndex) bool { return sorts(columns, paths) }
		if !slices.ContainsFunc(policy.CompositeIndexes, sorts) {
			breaks("composite index", "the composite index %s is missing, so sorted queries would fail",
				strings.Join(paths, ", "))
		}
	}
	for _, path := range s.Indexed {
		if !indexes(policy, path) {
			costs("indexed paths", "%s is not indexed, so queries would read more than they return", path)
		}
	}
	for _, included := range policy.IncludedPaths {
		if !slices.Contains(s.Indexed, strings.TrimSuffix(plainPath(included.Path), "/?")) {
			costs("indexed paths", "%s is indexed, which makes writes more expensive", included.Path)
		}
	}
	for _, columns := range policy.CompositeIndexes {
		if !slices.ContainsFunc(s.Composite, func(paths []string) bool { return sorts(columns, paths) }) {
			costs("composite index", "the composite index %s is not used, and makes writes more expensive",
				strings.Join(pathsOf(columns), ", "))
		}
	}
	unused := len(policy.SpatialIndexes) + len(policy.VectorIndexes) + len(policy.FullTextIndexes)
	for _, path := range s.FullText {
		isPath := func(i azcosmos.FullTextIndex) bool { return plainPath(i.Path) == path }
		if slices.ContainsFunc(policy.FullTextIndexes, isPath) {
			unused--
		} else {
			costs("full-text index", "the full-text index of %s is missing, so searches would fail or read all items", path)
		}
		p := have.FullTextPolicy
		if p == nil || !slices.ContainsFunc(p.FullTextPaths, isEnglish(path, p.DefaultLanguage)) {
			costs("full-text policy", "the full-text policy lacks %s in %s, so searches would fail or miss items", path,
				english)
		}
	}
	if unused > 0 {
		costs("indexes", "%d spatial, vector or full-text indexes are not used, and make writes more expensive", unused)
	}
	return all
}

// isEnglish returns a function that reports whether a path of a full-text policy is path, in English.
func isEnglish(path, defaultLanguage string) func(azcosmos.FullTextPath) bool {
	return func(p azcosmos.FullTextPath) bool {
		return plainPath(p.Path) == path && cmp.Or(p.Language, defaultLanguage) == english
	}
}

// sorts reports whether a composite index serves ORDER BY the paths, all ascending or all descending. Cosmos DB also
// reads an index backwards, but needs exactly its columns.
func sorts(columns []azcosmos.CompositeIndex, paths []string) bool {
	descends := func(c azcosmos.CompositeIndex) bool { return c.Order == azcosmos.CompositeIndexDescending }
	return slices.Equal(pathsOf(columns), paths) &&
		!slices.ContainsFunc(columns, func(c azcosmos.CompositeIndex) bool {
			return descends(c) != descends(columns[0])
		})
}

func pathsOf(columns []azcosmos.CompositeIndex) (paths []string) {
	for _, c := range columns {
		paths = append(paths, plainPath(c.Path))
	}
	return paths
}

// plainPath removes the quotes around names of a path.
func plainPath(path string) string { return strings.ReplaceAll(path, `"`, "") }

// indexes reports whether a policy indexes the values at a path. The most precise matching pattern
// decides.
func indexes(p *azcosmos.IndexingPolicy, path string) bool {
	included, excluded := -1, -1
	for _, one := range p.IncludedPaths {
		included = max(included, precision(one.Path, path))
	}
	for _, one := range p.ExcludedPaths {
		excluded = max(excluded, precision(one.Path, path))
	}
	return included > excluded
}

// precision returns how precisely a pattern, which ends with /? or /*, matches a path; -1 if it does
// not match.
func precision(pattern, path string) int {
	pattern = plainPath(pattern)
	if exact, ok := strings.CutSuffix(pattern, "/?"); ok && exact == path {
		return 2*len(exact) + 1
	}
	if under, ok := strings.CutSuffix(pattern, "/*"); ok && strings.HasPrefix(path+"/", under+"/") {
		return 2 * len(under)
	}
	return -1
}

// compareThroughput returns how the throughput of a database and its containers differs from
// MaxThroughput; nothing if that is 0, or if this identity may not read it.
func compareThroughput(
	ctx context.Context, db *azcosmos.DatabaseClient, spec DatabaseSpec,
) (all []Difference, err error) {
	if spec.MaxThroughput == 0 {
		return nil, nil
	}
	have, err := db.ReadThroughput(ctx, nil)
	switch {
	case err != nil && cosmos.ErrorOf(err).ControlPlane():
		return nil, nil
	case hasNoThroughput(err):
		all = append(all, Difference{Property: "throughput",
			Text: "the database has no throughput that its containers share"})
	case err != nil:
		return nil, fmt.Errorf("read the throughput of database %s: %w", spec.Name, cosmos.ErrorOf(err))
	default:
		if most, ok := have.ThroughputProperties.AutoscaleMaxThroughput(); !ok || int(most) != spec.MaxThroughput {
			all = append(all, Difference{Property: "throughput",
				Text: fmt.Sprintf("the database has %s, not autoscale up to %d RU/s", throughputText(have),
					spec.MaxThroughput)})
		}
	}
	for _, c := range spec.Containers {
		container, err := db.NewContainer(c.Name)
		if err != nil {
			return nil, err
		}
		own, err := container.ReadThroughput(ctx, nil)
		if hasNoThroughput(err) { // it shares the database's, or does not exist
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the throughput of container %s: %w", c.Name, cosmos.ErrorOf(err))
		}
		all = append(all, Difference{Container: c.Name, Property: "throughput",
			Text: fmt.Sprintf("it has %s of its own", throughputText(own))})
	}
	return all, nil
}

// hasNoThroughput reports whether ReadThroughput failed because no throughput is set.
func hasNoThroughput(err error) bool {
	return cosmos.HasStatus(err, http.StatusNotFound) || isServerless(err)
}

// isServerless reports whether a request for throughput failed with 400 because a serverless account has none: with
// "Reading or replacing offers is not supported for serverless accounts", or "Setting offer throughput or autopilot
// on container is not supported for serverless accounts".
func isServerless(err error) bool {
	return cosmos.HasStatus(err, http.StatusBadRequest) && strings.Contains(err.Error(), "serverless accounts")
}

func throughputText(r azcosmos.ThroughputResponse) string {
	if most, ok := r.ThroughputProperties.AutoscaleMaxThroughput(); ok {
		return fmt.Sprintf("autoscale up to %d RU/s", most)
	}
	manual, _ := r.ThroughputProperties.ManualThroughput()
	return fmt.Sprintf("%d RU/s", manual)
}
