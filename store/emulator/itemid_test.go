package emulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
)

// encodeURI is JavaScript's function, with which @azure/cosmos writes paths: unlike url.PathEscape it leaves ? as it
// is.
func encodeURI(s string) string {
	var out strings.Builder
	for i := range len(s) {
		if one := s[i : i+1]; strings.Contains(";,/?:@&=+$-_.!~*'()#", one) {
			out.WriteString(one)
		} else {
			out.WriteString(url.PathEscape(one))
		}
	}
	return out.String()
}

// TestItemID_InURLs: an item is found by its id, however an SDK has written the id in the URL. Ids that the service's
// routing gateway refuses are refused after a question mark, too; the compute gateway accepts them.
func TestItemID_InURLs(t *testing.T) {
	e := newEngine(t, Options{})
	newContainer(t, e, azcosmos.ContainerProperties{})
	found := []int{http.StatusCreated, http.StatusOK, http.StatusOK, http.StatusNoContent}
	unauthorized := []int{http.StatusCreated, http.StatusUnauthorized, http.StatusUnauthorized, http.StatusUnauthorized}
	invalid := []int{http.StatusCreated, http.StatusBadRequest, http.StatusBadRequest, http.StatusBadRequest}
	for _, one := range []struct {
		id   string
		want []int // of create, read, replace and delete, through the routing gateway
	}{
		{"plain", found},
		{"Disallowed?Chars", found},
		{"?", found},
		{"a?", found},
		{"a??b?", found},
		{"a?b=c&d=e;f", found},
		{"a?b c+d", found},
		{"a?b%", found},
		{"?鱀😀", found},
		{"100%", found},
		{"50%-off", found},
		{" a+b c", found},
		{"WithAllowedSpecial,=.:~+-@()^${}[]!_Chars'\"<>`|", found},
		{"鱀😀é", found},
		{"a ", unauthorized},
		{"a%20", unauthorized},
		{"a/b", unauthorized},
		{`a\b`, unauthorized},
		{"a#b", unauthorized},
		{"a?b ", unauthorized},
		{"a?b%20", unauthorized},
		{"a?b/c", unauthorized},
		{"a?b#c", unauthorized},
		{"a\tb", invalid},
		{"a?b\n", invalid},
	} {
		for _, sdk := range []struct {
			name   string
			encode func(string) string
		}{{"azcosmos", url.PathEscape}, {"@azure/cosmos", encodeURI}} {
			if sdk.name == "@azure/cosmos" && strings.ContainsAny(one.id, "/#") {
				continue // it cannot send these
			}
			for _, gateway := range []struct {
				name    string
				handler http.Handler
				want    []int
			}{{"routing gateway", e, one.want}, {"compute gateway", e.ComputeGateway(), found}} {
				t.Run(one.id+", "+sdk.name+", "+gateway.name, func(t *testing.T) {
					body, err := json.Marshal(map[string]string{"id": one.id, "pk": "p"})
					if err != nil {
						t.Fatal(err)
					}
					status := func(method, path string) int {
						h := http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}}
						w := httptest.NewRecorder()
						gateway.handler.ServeHTTP(w, signed(t, method, path, h, bytes.Clone(body)))
						return w.Code
					}
					const docs = "/dbs/db/colls/c/docs"
					item := docs + "/" + sdk.encode(one.id)
					got := []int{status("POST", docs), status("GET", item), status("PUT", item), status("DELETE", item)}
					if d := cmp.Diff(gateway.want, got); d != "" {
						t.Errorf("%s: create, read, replace, delete: -want +got\n%s", item, d)
					}
					if got[3] != http.StatusNoContent { // for the next
						item = docs + "/" + url.PathEscape(one.id)
						w := httptest.NewRecorder()
						h := http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}}
						e.ComputeGateway().ServeHTTP(w, signed(t, "DELETE", item, h, nil))
						if w.Code != http.StatusNoContent {
							t.Fatal(w.Code, w.Body)
						}
					}
				})
			}
		}
	}
}

// TestItemID_QuerySigned: the whole id is signed, so a signature for a shorter one does not read the item.
func TestItemID_QuerySigned(t *testing.T) {
	e := newEngine(t, Options{})
	c := newContainer(t, e, azcosmos.ContainerProperties{})
	mustCreate(t, c, "p", `{"id":"a?b","pk":"p"}`)
	mustCreate(t, c, "p", `{"id":"a","pk":"p"}`)
	for link, want := range map[string]int{
		"a?b": http.StatusOK, "a": http.StatusUnauthorized, "a?": http.StatusUnauthorized, "a?B": http.StatusUnauthorized,
	} {
		h := http.Header{"X-Ms-Documentdb-Partitionkey": {`["p"]`}, "X-Ms-Date": {wireDate},
			"Authorization": {masterToken(t, "GET", "docs", "dbs/db/colls/c/docs/"+link)}}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, signed(t, "GET", "/dbs/db/colls/c/docs/a?b", h, nil))
		if w.Code != want {
			t.Errorf("signed %s: %d, want %d", link, w.Code, want)
		}
	}
}
