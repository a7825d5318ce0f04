package emulator

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/index"
	"byline/store/emulator/internal/sql"
	"byline/store/emulator/jsonpart"
)

// containerProperties are the properties that a client sets. Policies for conflicts, vectors and
// geography are stored unchanged: there are no conflicts, and queries that need the others are refused.
type containerProperties struct {
	ID                 string            `json:"id"`
	IndexingPolicy     *index.Policy     `json:"indexingPolicy"`
	PartitionKey       *partitionKeyDef  `json:"partitionKey"`
	DefaultTTL         *int64            `json:"defaultTtl,omitempty"`
	UniqueKeyPolicy    *index.UniqueKeys `json:"uniqueKeyPolicy,omitempty"`
	ConflictResolution json.RawMessage   `json:"conflictResolutionPolicy"`
	GeospatialConfig   json.RawMessage   `json:"geospatialConfig"`
	VectorEmbedding    json.RawMessage   `json:"vectorEmbeddingPolicy,omitempty"`
	FullText           *index.TextPolicy `json:"fullTextPolicy,omitempty"`
}

type partitionKeyDef struct {
	Paths   []string `json:"paths"`
	Kind    string   `json:"kind"`
	Version int      `json:"version,omitempty"`
}

// parseContainerProperties parses and validates a client's properties and sets the defaults.
func parseContainerProperties(body []byte) (*containerProperties, error) {
	var p containerProperties
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, apierror.BadRequest("The request payload is invalid. Ensure to provide a valid request payload.")
	}
	if err := checkMembers(body); err != nil {
		return nil, err
	}
	if err := checkResourceID(p.ID); err != nil {
		return nil, err
	}
	if p.PartitionKey == nil || len(p.PartitionKey.Paths) == 0 {
		return nil, apierror.BadRequest("The partition key definition of the container is missing.")
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
		return nil, apierror.BadRequest("The partition key definition of the container is invalid.")
	case k.Version == 0:
		k.Version = 2
	}
	if err := checkKeyPaths(p.PartitionKey.Paths); err != nil {
		return nil, err
	}
	if err := p.UniqueKeyPolicy.Check(); err != nil {
		return nil, err
	}
	if t := p.DefaultTTL; t != nil && (*t == 0 || *t < -1 || *t > 1<<31-1) {
		return nil, apierror.BadRequest(
			"The defaultTtl '%d' is invalid. Ensure to provide a nonzero positive integer, or -1.", *t)
	}
	if p.IndexingPolicy == nil {
		p.IndexingPolicy = &index.Policy{}
	}
	if err := p.IndexingPolicy.Complete(); err != nil {
		return nil, err
	}
	if err := p.FullText.Complete(p.IndexingPolicy); err != nil {
		return nil, err
	}
	if p.ConflictResolution == nil {
		p.ConflictResolution = json.RawMessage(
			`{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""}`)
	}
	if p.GeospatialConfig == nil {
		p.GeospatialConfig = json.RawMessage(`{"type":"Geography"}`)
	}
	return &p, nil
}

// checkMembers refuses by name what the engine would not store or not obey in the properties of a container.
func checkMembers(body []byte) error {
	body = bytes.TrimSpace(body)
	if err := checkSupported("container", body, "id", "indexingPolicy", "partitionKey", "defaultTtl", "uniqueKeyPolicy",
		"conflictResolutionPolicy", "geospatialConfig", "vectorEmbeddingPolicy", "fullTextPolicy"); err != nil {
		return err
	}
	policy := sql.Lookup(body, sql.Path{"indexingPolicy"}).AppendJSON(nil)
	if err := checkSupported("indexing policy", policy, "indexingMode", "automatic", "includedPaths", "excludedPaths",
		"compositeIndexes", "spatialIndexes", "vectorIndexes", "fullTextIndexes"); err != nil {
		return err
	}
	key := sql.Lookup(body, sql.Path{"partitionKey"}).AppendJSON(nil)
	if err := checkSupported("partition key definition", key, "paths", "kind", "version"); err != nil {
		return err
	}
	texts := sql.Lookup(body, sql.Path{"fullTextPolicy"}).AppendJSON(nil)
	if err := checkSupported("full-text policy", texts, "defaultLanguage", "fullTextPaths"); err != nil {
		return err
	}
	mode := sql.Lookup(body, sql.Path{"conflictResolutionPolicy", "mode"})
	if strings.EqualFold(mode.String(), "Custom") {
		return apierror.BadRequest("The mode 'Custom' of 'conflictResolutionPolicy' is not supported.")
	}
	return nil
}

// checkSupported refuses an object, one of the resources of a kind, with a member that is not supported, unless its
// value is that of a missing one. Members whose names begin with an underscore are the service's own: clients send
// back what they have read.
func checkSupported(kind string, object []byte, supported ...string) error {
	if !bytes.HasPrefix(object, []byte{'{'}) {
		return nil
	}
	for c := range jsonpart.Children(object) {
		if name := string(sql.MemberName(c)); !strings.HasPrefix(name, "_") && !slices.Contains(supported, name) &&
			!isBlank(c.Value) {
			return apierror.BadRequest("The property '%s' of the %s is not supported.", name, kind)
		}
	}
	return nil
}

// isBlank reports whether a JSON value says nothing: null, false, 0, "", or an array or object of such values.
func isBlank(value []byte) bool {
	switch value[0] {
	case '[', '{':
		for c := range jsonpart.Children(value) {
			if !isBlank(c.Value) {
				return false
			}
		}
		return true
	case '"':
		return len(value) == len(`""`)
	case 't':
		return false
	}
	return sql.ValueOf(value).Float() == 0
}

// checkKeyPaths validates the paths of a new partition key definition. Like the service, it is
// stricter than parsePath.
func checkKeyPaths(paths []string) error {
	var all []sql.Path
	for _, s := range paths {
		if at := badKeyPath(s); at >= 0 {
			return apierror.BadRequest(
				"The partition key component definition path '%s' could not be accepted, failed near position '%d'. "+
					"Partition key paths must contain only valid characters "+
					"and not contain a trailing slash or wildcard character.", s, at)
		}
		path, err := index.ParsePath(s)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(p sql.Path) bool { return slices.Equal(p, path) }) {
			return apierror.BadRequest("The partition key path '%s' occurs more than once.", s)
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
