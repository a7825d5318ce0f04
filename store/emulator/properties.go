package emulator

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"byline/store/emulator/internal/sql"
)

// containerProperties are the properties that a client sets. Unsupported ones are stored unchanged.
type containerProperties struct {
	ID                 string           `json:"id"`
	IndexingPolicy     *indexingPolicy  `json:"indexingPolicy"`
	PartitionKey       *partitionKeyDef `json:"partitionKey"`
	DefaultTTL         *int64           `json:"defaultTtl,omitempty"`
	UniqueKeyPolicy    *uniqueKeyPolicy `json:"uniqueKeyPolicy,omitempty"`
	ConflictResolution json.RawMessage  `json:"conflictResolutionPolicy"`
	GeospatialConfig   json.RawMessage  `json:"geospatialConfig"`
	VectorEmbedding    json.RawMessage  `json:"vectorEmbeddingPolicy,omitempty"`
	FullText           json.RawMessage  `json:"fullTextPolicy,omitempty"`
	AnalyticalTTL      json.RawMessage  `json:"analyticalStorageTtl,omitempty"`
	Computed           json.RawMessage  `json:"computedProperties,omitempty"`
	ChangeFeed         json.RawMessage  `json:"changeFeedPolicy,omitempty"`
	ClientEncryption   json.RawMessage  `json:"clientEncryptionPolicy,omitempty"`
}

type partitionKeyDef struct {
	Paths   []string `json:"paths"`
	Kind    string   `json:"kind"`
	Version int      `json:"version,omitempty"`
}

type uniqueKeyPolicy struct {
	UniqueKeys []struct {
		Paths []string `json:"paths"`
	} `json:"uniqueKeys"`
}

// parseContainerProperties parses and validates a client's properties and sets the defaults.
func parseContainerProperties(body []byte) (*containerProperties, error) {
	var p containerProperties
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, badRequest("The request payload is invalid. Ensure to provide a valid request payload.")
	}
	if err := checkResourceID(p.ID); err != nil {
		return nil, err
	}
	if p.PartitionKey == nil || len(p.PartitionKey.Paths) == 0 {
		return nil, badRequest("The partition key definition of the container is missing.")
	}
	if k := p.PartitionKey; k.Kind == "" {
		k.Kind = "Hash"
		if len(k.Paths) > 1 {
			k.Kind = "MultiHash"
		}
	}
	switch k := p.PartitionKey; {
	case k.Kind != "Hash" && k.Kind != "MultiHash",
		k.Kind == "Hash" && len(k.Paths) != 1,
		len(k.Paths) > 3,
		k.Version < 0 || k.Version > 2,
		k.Kind == "MultiHash" && k.Version == 1:
		return nil, badRequest("The partition key definition of the container is invalid.")
	case k.Version == 0:
		k.Version = 2
	}
	if err := checkKeyPaths(p.PartitionKey.Paths); err != nil {
		return nil, err
	}
	if err := p.UniqueKeyPolicy.check(); err != nil {
		return nil, err
	}
	if t := p.DefaultTTL; t != nil && (*t == 0 || *t < -1 || *t > 1<<31-1) {
		return nil, badRequest("The defaultTtl '%d' is invalid. Ensure to provide a nonzero positive integer, or -1.", *t)
	}
	if p.IndexingPolicy == nil {
		p.IndexingPolicy = &indexingPolicy{}
	}
	if err := p.IndexingPolicy.complete(); err != nil {
		return nil, err
	}
	if p.ConflictResolution == nil {
		p.ConflictResolution = json.RawMessage(`{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""}`)
	}
	if p.GeospatialConfig == nil {
		p.GeospatialConfig = json.RawMessage(`{"type":"Geography"}`)
	}
	return &p, nil
}

// Limits of the service on a unique key policy.
const (
	maxUniqueKeys     = 10
	maxUniqueKeyPaths = 16
)

// check refuses empty unique keys, unique keys on the whole item, and too many of them.
func (u *uniqueKeyPolicy) check() error {
	if u == nil {
		return nil
	}
	if len(u.UniqueKeys) > maxUniqueKeys {
		return badRequest("A container can't have more than %d unique keys.", maxUniqueKeys)
	}
	for _, k := range u.UniqueKeys {
		if len(k.Paths) == 0 || len(k.Paths) > maxUniqueKeyPaths {
			return badRequest("A unique key must have from 1 to %d paths.", maxUniqueKeyPaths)
		}
		for _, s := range k.Paths {
			if path, err := parsePath(s); err != nil || len(path) == 0 {
				return badRequest("The unique key path '%s' is invalid.", s)
			}
		}
	}
	return nil
}

// checkKeyPaths validates the paths of a new partition key definition. Like the service, it is
// stricter than parsePath.
func checkKeyPaths(paths []string) error {
	var all []sql.Path
	for _, s := range paths {
		if at := badKeyPath(s); at >= 0 {
			return badRequest("The partition key component definition path '%s' could not be accepted, failed near position '%d'. "+
				"Partition key paths must contain only valid characters and not contain a trailing slash or wildcard character.", s, at)
		}
		path, err := parsePath(s)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(p sql.Path) bool { return slices.Equal(p, path) }) {
			return badRequest("The partition key path '%s' occurs more than once.", s)
		}
		all = append(all, path)
	}
	return nil
}

// badKeyPath returns the position of the error in a partition key path, or -1. Each step is a slash
// followed by a plain name or any quoted one.
func badKeyPath(s string) int {
	if s == "" {
		return 0
	}
	for i := 0; i < len(s); {
		if s[i] != '/' {
			return i
		}
		i++
		from := i
		if i < len(s) && s[i] == '"' {
			end := strings.IndexByte(s[i+1:], '"')
			if end <= 0 {
				return i
			}
			i += end + 2
			continue
		}
		for ; i < len(s) && s[i] != '/'; i++ {
			if c := s[i]; c < utf8.RuneSelf && c != '_' && c != '-' && !isAlphanumeric(c) {
				return i
			}
		}
		if i == from {
			return i
		}
	}
	return -1
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// parsePath parses a path of an indexing policy or a partition key: /a/"b c"/d.
func parsePath(s string) (sql.Path, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, badRequest("The path '%s' is invalid.", s)
	}
	var path sql.Path
	for s = s[1:]; s != ""; {
		var one string
		if s[0] == '"' {
			end := strings.IndexByte(s[1:], '"')
			if end < 0 {
				return nil, badRequest("The path '/%s' is invalid.", s)
			}
			one, s = s[1:end+1], strings.TrimPrefix(s[end+2:], "/")
		} else {
			one, s, _ = strings.Cut(s, "/")
		}
		if one == "" {
			return nil, badRequest("The path '/%s' is invalid.", s)
		}
		path = append(path, one)
	}
	return path, nil
}
