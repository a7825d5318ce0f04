package graph

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

const (
	persistedBytes = 4 << 20  // that all documents known by their hash may take
	maxPersisted   = 64 << 10 // bytes of one of them, so that a few do not displace all others
)

const (
	persistedKey  = "persistedQuery" // of the extension
	documentIDKey = "documentId"     // of the extension that nameDocument makes

	persistedField = "extensions." + persistedKey
	hashField      = persistedField + ".sha256Hash"
)

// messagePersistedNotFound is what clients compare with to know that they should
// send the text.
const messagePersistedNotFound = "PersistedQueryNotFound"

// documentID is the id that a request names its document by. It travels in the
// parameters' extensions, whose values are never of this type when they come from a
// client.
type documentID string

// nameDocument notes the id that a request names its document by; "" is none.
func nameDocument(params *graphql.RawParams, id string) {
	if id == "" {
		return
	}
	if params.Extensions == nil {
		params.Extensions = map[string]any{}
	}
	params.Extensions[documentIDKey] = documentID(id)
}

// hasDocument reports whether a request says what to execute: by text, hash or id.
func hasDocument(params *graphql.RawParams) bool {
	_, named := params.Extensions[documentIDKey].(documentID)
	return named || params.Query != "" || params.Extensions[persistedKey] != nil
}

// persistedOperations finds the text of a document that a request names by its hash
// or id. Where documents are trusted it lets no other pass.
type persistedOperations struct {
	known   *byteCache[string] // texts by their SHA-256, all of which once passed every check
	trusted *TrustedDocuments  // nil: none are, and so any may be executed
}

var _ graphql.OperationParameterMutator = persistedOperations{}

func (persistedOperations) ExtensionName() string                   { return "PersistedOperations" }
func (persistedOperations) Validate(graphql.ExecutableSchema) error { return nil }

func (p persistedOperations) MutateOperationParameters(_ context.Context, params *graphql.RawParams) *gqlerror.Error {
	if err := p.find(params); err != nil {
		return gqlerror.Wrap(err)
	}
	return nil
}

func (p persistedOperations) find(params *graphql.RawParams) error {
	hash, err := persistedHash(params.Extensions)
	if err != nil {
		return err
	}
	if p.trusted != nil {
		id, _ := params.Extensions[documentIDKey].(documentID)
		return p.trusted.find(cmp.Or(string(id), hash), params)
	}
	if params.Query == "" {
		text, ok := p.known.get(hash)
		if !ok {
			return &refusal{code: persistedNotFound, message: messagePersistedNotFound}
		}
		params.Query = text
	} else if hash != "" && hash != hashOf(params.Query) {
		return refuse(hashField, "%s does not match the SHA-256 of the query", hashField)
	}
	return nil
}

// persistedHash is the hash in the extension persistedQuery, "" if there is none.
func persistedHash(extensions map[string]any) (string, error) {
	value := extensions[persistedKey]
	if value == nil {
		return "", nil
	}
	extension, ok := value.(map[string]any)
	if !ok {
		return "", refuse(persistedField, "%s must be an object", persistedField)
	}
	if version, _ := extension["version"].(int64); version != 1 {
		return "", refuse(persistedField+".version", "%s.version must be 1", persistedField)
	}
	hash, _ := extension["sha256Hash"].(string)
	if hash == "" {
		return "", refuse(hashField, "%s must be a non-empty string", hashField)
	}
	return hash, nil
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// rememberPersisted keeps the documents that come with their hash, once they have
// passed every check: it must be the last to see an operation.
type rememberPersisted struct{ known *byteCache[string] }

var _ graphql.OperationContextMutator = rememberPersisted{}

func (rememberPersisted) ExtensionName() string                   { return "RememberPersisted" }
func (rememberPersisted) Validate(graphql.ExecutableSchema) error { return nil }

func (r rememberPersisted) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	hash, err := persistedHash(op.Extensions) // find has compared it with the text
	if err == nil && hash != "" && len(op.RawQuery) <= maxPersisted {
		r.known.add(hash, op.RawQuery, len(op.RawQuery))
	}
	return nil
}
