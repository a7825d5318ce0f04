package emulator

import (
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// TestUnsupported_Resources: what the engine does not have is refused by name, once the signature is verified.
func TestUnsupported_Resources(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	rid := e.catalog.Load().databases["db"].containers["c"].rid
	const coll = "/dbs/db/colls/c"
	for _, one := range []struct{ method, path, kind, link, want string }{
		{"POST", coll + "/sprocs", "sprocs", "dbs/db/colls/c", "Stored procedures are not supported."},
		{"GET", coll + "/sprocs", "sprocs", "dbs/db/colls/c", "Stored procedures are not supported."},
		{"POST", coll + "/sprocs/s", "sprocs", "dbs/db/colls/c/sprocs/s", "Stored procedures are not supported."},
		{"PUT", coll + "/sprocs/s", "sprocs", "dbs/db/colls/c/sprocs/s", "Stored procedures are not supported."},
		{"POST", coll + "/triggers", "triggers", "dbs/db/colls/c", "Triggers are not supported."},
		{"DELETE", coll + "/triggers/t", "triggers", "dbs/db/colls/c/triggers/t", "Triggers are not supported."},
		{"POST", coll + "/udfs", "udfs", "dbs/db/colls/c", "User-defined functions are not supported."},
		{"GET", coll + "/udfs/u", "udfs", "dbs/db/colls/c/udfs/u", "User-defined functions are not supported."},
		{"GET", coll + "/conflicts", "conflicts", "dbs/db/colls/c", "Conflicts are not supported."},
		{"DELETE", coll + "/conflicts/x", "conflicts", "dbs/db/colls/c/conflicts/x", "Conflicts are not supported."},
		{"POST", coll + "/docs/1/attachments", "attachments", "dbs/db/colls/c/docs/1",
			"Attachments are not supported."},
		{"GET", coll + "/docs/1/attachments/a", "attachments", "dbs/db/colls/c/docs/1/attachments/a",
			"Attachments are not supported."},
		{"POST", "/dbs/db/users", "users", "dbs/db", "Users are not supported."},
		{"GET", "/dbs/db/users/u", "users", "dbs/db/users/u", "Users are not supported."},
		{"POST", "/dbs/db/users/u/permissions", "permissions", "dbs/db/users/u", "Permissions are not supported."},
		{"GET", "/dbs/db/users/u/permissions/p", "permissions", "dbs/db/users/u/permissions/p",
			"Permissions are not supported."},
		{"POST", "/dbs/db/clientencryptionkeys", "clientencryptionkeys", "dbs/db",
			"Client encryption keys are not supported."},
		{"GET", "/media/m", "media", "media/m", "Media are not supported."},
		{"GET", coll + "/pkranges/0", "pkranges", "dbs/db/colls/c/pkranges/0",
			"Reading one partition key range is not supported: list them."},
		{"POST", coll + "/operations/partitionkeydelete", "colls", "dbs/db/colls/c",
			"The deletion of all items of a partition key is not supported."},
		{"POST", coll + "/operations/partitionkeydelete", "partitionkey", "dbs/db/colls/c",
			"The deletion of all items of a partition key is not supported."},
		{"POST", coll + "/operations/collectiontruncate", "colls", "dbs/db/colls/c",
			"The operation 'collectiontruncate' on a container is not supported."},
		{"GET", "//addresses/?$resolveFor=dbs%2Fdb%2Fcolls%2Fc%2Fdocs&$filter=protocol%20eq%20rntbd", "docs",
			"dbs/db/colls/c", "Direct mode is not supported: use gateway mode."},
		{"GET", "//addresses/?$resolveFor=dbs%2FAAAAAQ==%2Fcolls%2F" + strings.ReplaceAll(rid, "=", "%3D") +
			"%2Fdocs%2F", "docs", strings.ToLower(rid), "Direct mode is not supported: use gateway mode."},
		{"GET", coll + "/nonsense", "nonsense", "dbs/db/colls/c", "Request url is invalid."},
	} {
		h := http.Header{"Authorization": {masterToken(t, one.method, one.kind, one.link)}, "X-Ms-Date": {wireDate}}
		res, err := e.Do(signed(t, one.method, one.path, h, []byte("{}")))
		if err != nil {
			t.Fatal(err)
		}
		var failure struct{ Message string }
		mustUnmarshal(t, readAll(t, res), &failure)
		if res.StatusCode != http.StatusBadRequest || failure.Message != one.want {
			t.Errorf("%s %s: %s %q, want 400 %q", one.method, one.path, res.Status, failure.Message, one.want)
		}
		h = http.Header{"Authorization": {masterToken(t, one.method, "another", one.link)}, "X-Ms-Date": {wireDate}}
		if res, err = e.Do(signed(t, one.method, one.path, h, nil)); err != nil ||
			res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s %s with a wrong signature: %v %v, want 401", one.method, one.path, res, err)
		}
	}
	for _, token := range []string{"type=resource&ver=1&sig=abc==;def", "type%3Dresource%26ver%3D1%26sig%3Dabc"} {
		res := do(t, e, "GET", coll+"/docs/1", "", "Authorization", token)
		if out := string(readAll(t, res)); res.StatusCode != http.StatusUnauthorized ||
			!strings.Contains(out, "Resource tokens are not supported") {
			t.Errorf("%s: %s %s", token, res.Status, out)
		}
	}
}

// TestUnsupported_Policies: a policy that would change results or behaviour, and that the engine does not implement, is
// refused by name when a container is created or replaced. What says nothing is not, nor what clients send back.
func TestUnsupported_Policies(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	for member, name := range map[string]string{
		`"computedProperties":[{"name":"lower","query":"SELECT VALUE LOWER(c.s) FROM c"}]`:   "computedProperties",
		`"changeFeedPolicy":{"retentionDuration":60}`:                                        "changeFeedPolicy",
		`"clientEncryptionPolicy":{"includedPaths":[{"path":"/s"}],"policyFormatVersion":1}`: "clientEncryptionPolicy",
		`"analyticalStorageTtl":-1`:                               "analyticalStorageTtl",
		`"ttlPropertyPath":"/expires"`:                            "ttlPropertyPath",
		`"materializedViewDefinition":{"sourceCollectionId":"c"}`: "materializedViewDefinition",
		`"conflictResolutionPolicy":{"mode":"Custom","conflictResolutionProcedure":"dbs/db/colls/c/sprocs/s"}`:                                   "conflictResolutionPolicy",
		`"indexingPolicy":{"indexingMode":"consistent","automatic":false}`:                                                                       "automatic",
		`"indexingPolicy":{"future":{"x":1}}`:                                                                                                    "future",
		`"computedProperties":[]`:                                                                                                                "",
		`"computedProperties":null,"changeFeedPolicy":{"retentionDuration":0},"analyticalStorageTtl":0`:                                          "",
		`"conflictResolutionPolicy":{"mode":"LastWriterWins","conflictResolutionPath":"/n"}`:                                                     "",
		`"indexingPolicy":{"indexingMode":"none","automatic":false}`:                                                                             "",
		`"indexingPolicy":{"vectorIndexes":[{"path":"/v","type":"flat"}],"spatialIndexes":[{"path":"/g/?","types":["Point"]}]}`:                  "",
		`"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/s"}]},"indexingPolicy":{"fullTextIndexes":[{"path":"/s"}]}`:      "",
		`"fullTextPolicy":{"defaultLanguage":"en-US","removeStopWords":["x"]}`:                                                                   "removeStopWords",
		`"fullTextPolicy":{},"indexingPolicy":{"fullTextIndexes":[]}`:                                                                            "",
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float32","distanceFunction":"cosine","dimensions":3}]}`:           "",
		`"fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/s","language":"en-US"}]},"geospatialConfig":{"type":"Geometry"}`: "",
		`"_self":"dbs/x","_conflicts":"conflicts/"`:                                                                                              "",
	} {
		for method, path := range map[string]string{"POST": "/dbs/db/colls", "PUT": "/dbs/db/colls/c"} {
			id := map[string]string{"POST": "new", "PUT": "c"}[method]
			res := do(t, e, method, path,
				` {"id":"`+id+`","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},`+member+`}`)
			out := string(readAll(t, res))
			if ok := res.StatusCode/100 == 2; ok != (name == "") ||
				!ok && (res.StatusCode != http.StatusBadRequest || !strings.Contains(out, "'"+name+"'")) {
				t.Errorf("%s with %s: %s %s, want a refusal that names %q", method, member, res.Status, out, name)
			}
		}
		do(t, e, "DELETE", "/dbs/db/colls/new", "")
	}
	for _, one := range []struct{ method, path, body, name string }{
		{"POST", "/dbs/db/colls", `{"id":"new","partitionKey":{"paths":["/pk"],"systemKey":true}}`, "systemKey"},
		{"POST", "/dbs", `{"id":"new","createMode":"Restore"}`, "createMode"},
		{"PUT", "/offers/" + offerOf(e),
			`{"content":{"offerThroughput":500,"throughputBuckets":[{"id":1,"maxThroughputPercentage":10}]}}`,
			"throughputBuckets"},
		{"PUT", "/dbs/db/colls/c",
			`{"id":"c","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/s"]}]}}`,
			"unique key policy"},
	} {
		res := do(t, e, one.method, one.path, one.body)
		if out := string(readAll(t, res)); res.StatusCode != http.StatusBadRequest || !strings.Contains(out, one.name) {
			t.Errorf("%s %s %s: %s %s", one.method, one.path, one.body, res.Status, out)
		}
	}
	if res := do(t, e, "PUT", "/dbs/db/colls/c",
		`{"id":"c","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":[]}}`); res.StatusCode != http.StatusOK {
		t.Errorf("an empty unique key policy: %s", res.Status)
	}
}

// offerOf returns the id of an offer.
func offerOf(e *Engine) string {
	for id := range e.catalog.Load().offers {
		return id
	}
	return ""
}
