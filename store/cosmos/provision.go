package cosmos

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// ContainerSpec describes a container: how it is created, and what an existing one needs.
type ContainerSpec struct {
	Name         string
	PartitionKey string   // a path
	Indexed      []string // paths; nothing else is indexed
	Composite    []string // paths of a composite index, ascending; may be empty
	TTL          bool     // items may have a ttl
}

func (s ContainerSpec) properties() azcosmos.ContainerProperties {
	policy := &azcosmos.IndexingPolicy{
		Automatic:     true,
		IndexingMode:  "consistent", // as Azure Resource Manager spells azcosmos.IndexingModeConsistent
		ExcludedPaths: []azcosmos.ExcludedPath{{Path: "/*"}},
	}
	for _, path := range s.Indexed {
		policy.IncludedPaths = append(policy.IncludedPaths, azcosmos.IncludedPath{Path: path + "/?"})
	}
	var columns []azcosmos.CompositeIndex
	for _, path := range s.Composite {
		columns = append(columns, azcosmos.CompositeIndex{Path: path, Order: azcosmos.CompositeIndexAscending})
	}
	if columns != nil {
		policy.CompositeIndexes = [][]azcosmos.CompositeIndex{columns}
	}
	p := azcosmos.ContainerProperties{
		ID:                     s.Name,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{s.PartitionKey}, Version: 2},
		IndexingPolicy:         policy,
	}
	if s.TTL {
		never := int32(-1) // items do not expire unless they have a ttl
		p.DefaultTimeToLive = &never
	}
	return p
}

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

// Compare returns how a container differs from the specification. Differences that break requests come
// first.
func (s ContainerSpec) Compare(have azcosmos.ContainerProperties) []Difference {
	var all []Difference
	breaks := func(property, format string, args ...any) {
		all = append(all, Difference{s.Name, property, fmt.Sprintf(format, args...), true})
	}
	costs := func(property, format string, args ...any) {
		all = append(all, Difference{s.Name, property, fmt.Sprintf(format, args...), false})
	}
	if paths := have.PartitionKeyDefinition.Paths; !slices.Equal(paths, []string{s.PartitionKey}) {
		breaks("partition key", "it is partitioned by %s, not by %s, and a partition key cannot be changed", strings.Join(paths, ", "), s.PartitionKey)
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
		breaks("indexing mode", "the indexing mode is %q with automatic=%t, not %q with automatic=true, so queries would fail or miss items", policy.IndexingMode, policy.Automatic, azcosmos.IndexingModeConsistent)
		return all // the paths do not matter
	}
	if len(s.Composite) > 0 && !slices.ContainsFunc(policy.CompositeIndexes, s.sorts) {
		breaks("composite index", "the composite index %s is missing, so sorted queries would fail", strings.Join(s.Composite, ", "))
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
		if len(s.Composite) == 0 || !s.sorts(columns) {
			costs("composite index", "the composite index %s is not used, and makes writes more expensive", strings.Join(pathsOf(columns), ", "))
		}
	}
	if n := len(policy.SpatialIndexes) + len(policy.VectorIndexes) + len(policy.FullTextIndexes); n > 0 {
		costs("indexes", "%d spatial, vector or full-text indexes are not used, and make writes more expensive", n)
	}
	return all
}

// sorts reports whether a composite index serves ORDER BY the specification's columns, all
// ascending or all descending. Cosmos DB also reads an index backwards, but needs exactly
// its columns.
func (s ContainerSpec) sorts(columns []azcosmos.CompositeIndex) bool {
	descends := func(c azcosmos.CompositeIndex) bool { return c.Order == azcosmos.CompositeIndexDescending }
	return slices.Equal(pathsOf(columns), s.Composite) &&
		!slices.ContainsFunc(columns, func(c azcosmos.CompositeIndex) bool { return descends(c) != descends(columns[0]) })
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

// ContainersError reports that existing containers cannot be used.
type ContainersError struct {
	Differences []Difference // all that break requests
}

// Error lists the differences.
func (e *ContainersError) Error() string {
	all := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		all[i] = d.String()
	}
	return strings.Join(all, "; ")
}

// MissingError reports that containers do not exist, and that an Entra identity may not create them:
// only the account's key and the control plane can.
type MissingError struct {
	Database   string
	Containers []string // names
	Err        error    // Cosmos DB's response
}

// Error names the containers.
func (e *MissingError) Error() string {
	return fmt.Sprintf("database %s lacks the containers %s, and an Entra identity may not create them", e.Database, strings.Join(e.Containers, ", "))
}

// Unwrap returns Cosmos DB's response.
func (e *MissingError) Unwrap() error { return e.Err }

// DatabaseSpec describes a database: how it is created, and what an existing one needs.
type DatabaseSpec struct {
	Name string
	// MaxThroughput is the throughput that the containers share: autoscale up to this many RU/s. 0 for
	// none: then each new container has the account's default, which is 400 RU/s, or none in a
	// serverless account.
	MaxThroughput int
	Containers    []ContainerSpec
}

func (s DatabaseSpec) options() *azcosmos.CreateDatabaseOptions {
	if s.MaxThroughput == 0 {
		return nil
	}
	throughput := azcosmos.NewAutoscaleThroughputProperties(int32(s.MaxThroughput))
	return &azcosmos.CreateDatabaseOptions{ThroughputProperties: &throughput}
}

// Provision creates the database and the containers that are missing. It does not change existing
// containers, but compares them with the specifications: it logs differences that break nothing, and
// returns the others as a *ContainersError, without creating anything. It returns ErrMultiRegionWrites
// for an account with multi-region writes. It is idempotent, and may run in several processes at once.
func (a *Account) Provision(ctx context.Context, spec DatabaseSpec) error {
	db, newDatabase, err := a.readDatabase(ctx, spec.Name)
	if err != nil {
		return err
	}
	if a.multipleWrites() {
		return ErrMultiRegionWrites
	}
	a.warn(append(a.compareRegions(), a.compareConsistency()...))
	missing := spec.Containers
	if !newDatabase {
		if missing, err = a.usable(ctx, db, spec.Containers); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if newDatabase {
		_, err = a.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: spec.Name}, spec.options())
		if err != nil && !HasStatus(err, http.StatusConflict) {
			return notCreated("database "+spec.Name, spec.Name, missing, err)
		}
	}
	var created []ContainerSpec // by another process meanwhile
	for i, c := range missing {
		_, err := db.CreateContainer(ctx, c.properties(), nil)
		if HasStatus(err, http.StatusConflict) {
			created = append(created, c)
		} else if err != nil {
			return notCreated("container "+c.Name, spec.Name, missing[i:], err)
		}
	}
	_, err = a.usable(ctx, db, created)
	return err
}

// readDatabase returns a database, and reports whether it is missing.
func (a *Account) readDatabase(ctx context.Context, name string) (db *azcosmos.DatabaseClient, missing bool, err error) {
	if db, err = a.client.NewDatabase(name); err != nil {
		return nil, false, err
	}
	_, err = db.Read(ctx, nil)
	if HasStatus(err, http.StatusNotFound) {
		return db, true, nil
	}
	if err != nil {
		err = fmt.Errorf("read database %s: %w", name, wrap(err))
	}
	return db, false, err
}

// notCreated returns the error of a database or a container that could not be created.
func notCreated(what, database string, missing []ContainerSpec, err error) error {
	if !isControlPlane(err) {
		return fmt.Errorf("create %s: %w", what, wrap(err))
	}
	e := &MissingError{Database: database, Err: wrap(err)}
	for _, spec := range missing {
		e.Containers = append(e.Containers, spec.Name)
	}
	return e
}

// isControlPlane reports whether err refuses an operation that Entra identities may not do.
func isControlPlane(err error) bool {
	return HasStatus(err, http.StatusForbidden) && ErrorOf(err).Substatus == substatusControlPlane
}

// usable returns the missing containers, and a *ContainersError if differences of others break requests.
func (a *Account) usable(ctx context.Context, db *azcosmos.DatabaseClient, containers []ContainerSpec) (missing []ContainerSpec, err error) {
	all, missing, err := compareContainers(ctx, db, containers)
	if err != nil {
		return nil, err
	}
	a.warn(all)
	if broken := slices.DeleteFunc(all, func(d Difference) bool { return !d.Breaks }); len(broken) > 0 {
		return nil, &ContainersError{broken}
	}
	return missing, nil
}

// warn logs the differences that break nothing.
func (a *Account) warn(all []Difference) {
	for _, d := range all {
		switch {
		case d.Breaks:
		case d.Container == "":
			a.log.Warn("account differs from what requests need", "difference", d.Text)
		default:
			a.log.Warn("container differs from what requests need", "container", d.Container, "difference", d.Text)
		}
	}
}

// compareContainers returns how the containers that exist differ from the specifications, and which
// are missing.
func compareContainers(ctx context.Context, db *azcosmos.DatabaseClient, containers []ContainerSpec) (all []Difference, missing []ContainerSpec, err error) {
	for _, spec := range containers {
		c, err := db.NewContainer(spec.Name)
		if err != nil {
			return nil, nil, err
		}
		r, err := c.Read(ctx, nil)
		if HasStatus(err, http.StatusNotFound) {
			missing = append(missing, spec)
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read container %s: %w", spec.Name, wrap(err))
		}
		all = append(all, spec.Compare(*r.ContainerProperties)...)
	}
	return all, missing, nil
}
