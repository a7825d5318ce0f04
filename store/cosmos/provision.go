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
	TTL          bool     // items may carry a ttl
}

func (s ContainerSpec) properties() azcosmos.ContainerProperties {
	policy := &azcosmos.IndexingPolicy{
		Automatic:     true,
		IndexingMode:  azcosmos.IndexingModeConsistent,
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
		unlessTold := int32(-1) // items live for ever unless they carry a ttl
		p.DefaultTimeToLive = &unlessTold
	}
	return p
}

// Difference is what an existing container has, or lacks, unlike its ContainerSpec.
type Difference struct {
	Container string
	Text      string // what differs and what follows from it
	Breaks    bool   // requests would fail or items be lost; otherwise requests only cost more
}

// String returns the container and the text.
func (d Difference) String() string { return "container " + d.Container + ": " + d.Text }

// Compare returns how a container differs from the specification, what breaks requests first.
func (s ContainerSpec) Compare(have azcosmos.ContainerProperties) []Difference {
	var all []Difference
	breaks := func(format string, args ...any) {
		all = append(all, Difference{s.Name, fmt.Sprintf(format, args...), true})
	}
	costs := func(format string, args ...any) {
		all = append(all, Difference{s.Name, fmt.Sprintf(format, args...), false})
	}
	if paths := have.PartitionKeyDefinition.Paths; !slices.Equal(paths, []string{s.PartitionKey}) {
		breaks("it is partitioned by %s, not by %s, and a partition key cannot be changed", strings.Join(paths, ", "), s.PartitionKey)
	}
	switch ttl := have.DefaultTimeToLive; {
	case ttl == nil && s.TTL:
		breaks("time to live is off, so deleted items would stay")
	case ttl != nil && *ttl > 0:
		breaks("the default time to live is %d s, so items would expire", *ttl)
	}
	if have.UniqueKeyPolicy != nil && len(have.UniqueKeyPolicy.UniqueKeys) > 0 {
		breaks("it has unique keys, so items could be refused")
	}
	policy := cmp.Or(have.IndexingPolicy, &azcosmos.IndexingPolicy{})
	if !policy.Automatic || !strings.EqualFold(string(policy.IndexingMode), string(azcosmos.IndexingModeConsistent)) {
		breaks("the indexing mode is %q with automatic=%t, not %q with automatic=true, so queries would fail or miss items", policy.IndexingMode, policy.Automatic, azcosmos.IndexingModeConsistent)
		return all // the paths do not matter
	}
	if len(s.Composite) > 0 && !slices.ContainsFunc(policy.CompositeIndexes, s.sorts) {
		breaks("the composite index %s is missing, so sorted queries would fail", strings.Join(s.Composite, ", "))
	}
	for _, path := range s.Indexed {
		if !indexes(policy, path) {
			costs("%s is not indexed, so queries would read more than they return", path)
		}
	}
	for _, included := range policy.IncludedPaths {
		if !slices.Contains(s.Indexed, strings.TrimSuffix(plainPath(included.Path), "/?")) {
			costs("%s is indexed, which makes writes more expensive", included.Path)
		}
	}
	for _, columns := range policy.CompositeIndexes {
		if len(s.Composite) == 0 || !s.sorts(columns) {
			costs("the composite index %s is not used, and makes writes more expensive", strings.Join(pathsOf(columns), ", "))
		}
	}
	if n := len(policy.SpatialIndexes) + len(policy.VectorIndexes) + len(policy.FullTextIndexes); n > 0 {
		costs("%d spatial, vector or full-text indexes are not used, and make writes more expensive", n)
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

// plainPath removes the quotes in which a path's names may be.
func plainPath(path string) string { return strings.ReplaceAll(path, `"`, "") }

// indexes reports whether a policy indexes the values at a path. Of the patterns that match,
// the most precise one decides.
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

// precision returns how precisely a pattern, with /? or /* at its end, names a path, -1 if it
// does not match.
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

// ContainersError says that existing containers cannot be used.
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

// MissingError says that containers do not exist, and that an Entra identity may not create
// them: Cosmos DB lets only the account's key and the control plane do that.
type MissingError struct {
	Database   string
	Containers []string // names
	Err        error    // Cosmos DB's answer
}

// Error names the containers.
func (e *MissingError) Error() string {
	return fmt.Sprintf("database %s lacks the containers %s, and an Entra identity may not create them", e.Database, strings.Join(e.Containers, ", "))
}

// Unwrap returns Cosmos DB's answer.
func (e *MissingError) Unwrap() error { return e.Err }

// Provision creates the database and the containers that are missing. What exists stays as
// it is and is compared with the specifications: what only costs is logged, and a
// *ContainersError has all that breaks requests; then nothing is created. ErrMultiRegionWrites
// for an account with them. It may be repeated, and run in several processes at once.
func (a *Account) Provision(ctx context.Context, database string, containers ...ContainerSpec) error {
	db, err := a.client.NewDatabase(database)
	if err != nil {
		return err
	}
	_, err = db.Read(ctx, nil)
	newDatabase := HasStatus(err, http.StatusNotFound)
	if err != nil && !newDatabase {
		return fmt.Errorf("read database %s: %w", database, wrap(err))
	}
	if err := a.checkRegions(); err != nil {
		return err
	}
	missing := containers
	if !newDatabase {
		if missing, err = a.compare(ctx, db, containers); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if newDatabase {
		_, err = a.client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: database}, nil)
		if err != nil && !HasStatus(err, http.StatusConflict) {
			return notCreated("database "+database, database, missing, err)
		}
	}
	var created []ContainerSpec // by another process, which was faster
	for i, spec := range missing {
		_, err := db.CreateContainer(ctx, spec.properties(), nil)
		if HasStatus(err, http.StatusConflict) {
			created = append(created, spec)
		} else if err != nil {
			return notCreated("container "+spec.Name, database, missing[i:], err)
		}
	}
	_, err = a.compare(ctx, db, created)
	return err
}

// notCreated is why a database or a container could not be created.
func notCreated(what, database string, missing []ContainerSpec, err error) error {
	if !HasStatus(err, http.StatusForbidden) || ErrorOf(err).Substatus != substatusControlPlane {
		return fmt.Errorf("create %s: %w", what, wrap(err))
	}
	e := &MissingError{Database: database, Err: wrap(err)}
	for _, spec := range missing {
		e.Containers = append(e.Containers, spec.Name)
	}
	return e
}

// compare returns which containers are missing, and a *ContainersError if others differ so
// much that requests would break.
func (a *Account) compare(ctx context.Context, db *azcosmos.DatabaseClient, containers []ContainerSpec) (missing []ContainerSpec, err error) {
	var broken []Difference
	for _, spec := range containers {
		c, err := db.NewContainer(spec.Name)
		if err != nil {
			return nil, err
		}
		r, err := c.Read(ctx, nil)
		if HasStatus(err, http.StatusNotFound) {
			missing = append(missing, spec)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read container %s: %w", spec.Name, wrap(err))
		}
		for _, d := range spec.Compare(*r.ContainerProperties) {
			if d.Breaks {
				broken = append(broken, d)
				continue
			}
			a.log.Warn("container differs from what requests need", "container", d.Container, "difference", d.Text)
		}
	}
	if broken != nil {
		return nil, &ContainersError{broken}
	}
	return missing, nil
}
