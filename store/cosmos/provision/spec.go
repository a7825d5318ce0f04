package provision

import "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

// DatabaseSpec describes a database: how it is created, and what an existing one needs.
type DatabaseSpec struct {
	Name string
	// MaxThroughput is the throughput that the containers share: autoscale up to this many RU/s. A serverless
	// account has none. 0 for none: then each new container has the account's default, 400 RU/s.
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

// ContainerSpec describes a container: how it is created, and what an existing one needs.
type ContainerSpec struct {
	Name         string
	PartitionKey string     // a path
	Indexed      []string   // paths; nothing else is indexed
	Composite    [][]string // paths of composite indexes, ascending; may be empty
	TTL          bool       // items may have a ttl
	// FullText has the paths of English texts with a full-text index. If it is not empty, the container is optional:
	// accounts can lack the capability for it.
	FullText []string
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
	for _, paths := range s.Composite {
		var columns []azcosmos.CompositeIndex
		for _, path := range paths {
			columns = append(columns, azcosmos.CompositeIndex{Path: path, Order: azcosmos.CompositeIndexAscending})
		}
		policy.CompositeIndexes = append(policy.CompositeIndexes, columns)
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
	if len(s.FullText) > 0 {
		p.FullTextPolicy = &azcosmos.FullTextPolicy{DefaultLanguage: english}
		for _, path := range s.FullText {
			p.FullTextPolicy.FullTextPaths = append(p.FullTextPolicy.FullTextPaths,
				azcosmos.FullTextPath{Path: path, Language: english})
			policy.FullTextIndexes = append(policy.FullTextIndexes, azcosmos.FullTextIndex{Path: path})
		}
	}
	return p
}

// english is the language of full texts.
const english = "en-US"
